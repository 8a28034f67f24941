// Models that draw_layers.py has drawn, run on meshes and cuts drawn here, beside what PyTorch computed of them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "support/alone.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace support {

/// Attention of a value whose first channel tells of its keys: where it is above 0 they take part, or it is their bias.
template <int Channels, class Term, class Attention>
struct TellsOfItsKeys : hg::Module<TellsOfItsKeys<Channels, Term, Attention>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced first = hg::chunk<Channels>(x)[0];
    if constexpr (std::is_same_v<Term, hg::KeyMask>) {
      const hg::Traced above = hg::ReLU{}(first);
      return Attention{}(x, hg::KeyMask{above});
    } else {
      return Attention{}(x, Term{first});
    }
  }
};

struct CaseCounts {
  long right = 0, wrong = 0;
  long too_small = 0;  ///< a piece of some level would be empty
  long refused = 0;    ///< for any other reason, though PyTorch computes it
};

/// Which cases to run; -1: all.
struct CaseChoice {
  int only = -1;
  unsigned long long seed = 1;
};

using RunCases = CaseCounts (*)(const std::string& name, const Reference&, const CaseChoice&);

/// Registers itself, in the order of the files.
struct DrawnModel {
  int number;
  const char* text;
  RunCases run;
  static std::vector<const DrawnModel*>& all() {
    static std::vector<const DrawnModel*> models;
    return models;
  }
  DrawnModel(int n, const char* t, RunCases r) : number(n), text(t), run(r) { all().push_back(this); }
};

/// Pieces of one point and more, drawn: the same on all ranks. Every third cut is torch.chunk's.
inline hg::Cut drawn_cut(hg::index_t extent, int parts, unsigned long long salt) {
  const auto below = [salt](int count, int stream, hg::index_t at) {
    return static_cast<std::size_t>(count *
                                    hg::uniform_at(salt, static_cast<unsigned>(stream), static_cast<unsigned>(at)));
  };
  if (parts > extent || below(3, 1, 0) == 0) return hg::Cut::chunk(extent, parts);
  std::vector<hg::index_t> sizes(static_cast<std::size_t>(parts), 1);
  const bool thin = below(3, 2, 0) == 0;  // one piece takes all that is left
  for (hg::index_t left = extent - parts; left > 0; --left) ++sizes[thin ? 0 : below(parts, 3, left)];
  return hg::Cut::of_sizes(sizes);
}

inline std::string cuts_text(const hg::Cut& cut) {
  std::string text;
  for (int p = 0; p < cut.parts(); ++p) text += (p ? "," : "") + std::to_string(cut.piece(p).size());
  return text;
}

/// Every case of the file on every mesh of the world's ranks. Collective.
template <class Model, int In, int Out, int Dimensions, bool Exact>
CaseCounts run_cases(const std::string& name, const Reference& reference, const CaseChoice& choice) {
  using MeshType =
      std::conditional_t<Dimensions == 3, VolumeMesh, std::conditional_t<Dimensions == 1, SignalMesh, Mesh>>;
  using Image = FieldOn<MeshType, double, In>;
  CaseCounts counts;
  for (int number = 0; number < 4096; ++number) {
    const std::string of = std::to_string(number) + ".";
    if (choice.only >= 0 && number != choice.only) continue;
    const auto is_there = [&](const hg::NamedTensor& t) { return t.name == of + "input"; };
    if (std::ranges::none_of(reference.all(), is_there)) {
      if (number > 64) break;
      continue;
    }
    const auto shape = reference.shape(of + "input");
    const auto parameters = reference.values(of + "parameters"), input = reference.values(of + "input");
    const auto label = reference.values(of + "grad_output");
    std::vector<float> narrow;
    for (const auto& mesh : meshes_of<MeshType>(static_cast<int>(shape[0]))) {
      std::array<hg::Cut, Image::rank> cuts, whole;
      std::string cuts_of;
      for (int d = 0; d < Image::rank; ++d) {
        const auto i = static_cast<std::size_t>(d);
        const int parts = d == 1 ? 1 : mesh.extents()[i - (d > 1)];
        const auto salt = choice.seed + 7919ull * static_cast<unsigned long long>(number * 64 + d);
        cuts[i] = drawn_cut(shape[i], parts, salt + static_cast<unsigned long long>(parts) * 104729ull);
        whole[i] = hg::Cut::chunk(shape[i], 1);
        cuts_of += (d ? " x " : "") + cuts_text(cuts[i]);
      }
      try {
        hg::layout_of<Image>(Model{}, mesh, cuts, hg::PlanKind::training_with_input_gradient);
      } catch (const hg::Error& error) {
        const bool is_small = leaves_a_piece_empty(error);
        ++(is_small ? counts.too_small : counts.refused);
        if (!is_small && world().rank() == 0)
          std::printf("%s case %d, mesh %s, cuts %s: refused: %s\n", name.c_str(), number, text(mesh).c_str(),
                      cuts_of.c_str(), error.what());
        continue;
      }
      auto result =
          unscaled(train_image<Model, Out, InnerProduct>(mesh, cut_by<Image>(mesh, cuts, input), parameters, label));
      result.parameter_gradient.resize(reference.values(of + "grad_parameters").size());  // buffers stand behind it
      const double errors[] = {relative_error(result.output, reference.values(of + "output")),
                               relative_error(result.input_gradient, reference.values(of + "grad_input")),
                               relative_error(result.parameter_gradient, reference.values(of + "grad_parameters"))};
      bool right = errors[0] < 1e-10 && errors[1] < 1e-9 && errors[2] < 1e-9;
      bool same_bits = true;
      if constexpr (Exact) {
        using Narrow = FieldOn<MeshType, float, In>;
        hg::Parameters<Model, float> values;
        values.copy_from_host(as<float>(parameters));
        const auto bits = hg::full_tensor(hg::infer(values, cut_by<Narrow>(mesh, cuts, as<float>(input))));
        if (narrow.empty())
          narrow = hg::full_tensor(hg::infer(values, cut_by<Narrow>(alone<MeshType>(), whole, as<float>(input))));
        same_bits = bits == narrow;
      }
      ++(right && same_bits ? counts.right : counts.wrong);
      if (!(right && same_bits) && world().rank() == 0)
        std::printf("%s case %d, mesh %s, cuts %s: output %.1e, gradients %.1e and %.1e%s\n", name.c_str(), number,
                    text(mesh).c_str(), cuts_of.c_str(), errors[0], errors[1], errors[2],
                    same_bits ? "" : ", other bits than one rank");
    }
  }
  return counts;
}

}  // namespace support
