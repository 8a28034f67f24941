// Runs random programs of the array language (draw_programs.py): the same one sharded and on one process, values and
// gradients compared. What fails is made smaller and then printed as the line that shows it again.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "halogen/array_language.hpp"
#include "support/ran.hpp"

namespace support {

namespace hg = halogen;
using hg::index_t;

inline constexpr int most_dimensions = 5;
using Sizes = std::array<index_t, most_dimensions>;

/// What a run of a program is given; drawn from (seed, program, case).
struct Case {
  Sizes extents{};
  unsigned long long salt = 0;  ///< of mesh, cuts and values
};

enum class Outcome { equal, refused, far, differs };
struct Verdict {
  Outcome outcome = Outcome::equal;
  std::string what;
};

/// One program, as the main knows it.
struct Program {
  int number, rank;
  bool periodic;
  const char* text;
  Verdict (*run)(const hg::Communicator& world, const Case& one);
};
inline std::vector<Program>& programs() {
  static std::vector<Program> all;
  return all;
}

/// Fields of this type are a program's variable; Along >= 0: a vector along that dimension of the others.
template <class FieldType, int Along>
struct Variable {
  using Field = FieldType;
  static constexpr int along = Along;
};

/// Numbers 0 <= u < 1 by position.
inline double drawn(unsigned long long salt, unsigned long long stream, unsigned long long i) {
  return hg::uniform_at(salt, stream, i);
}
inline int drawn_below(int end, unsigned long long salt, unsigned long long stream, unsigned long long i) {
  return static_cast<int>(drawn(salt, stream, i) * end) % end;
}

/// As torch.chunk, or any increasing bounds, often with empty pieces.
inline hg::Cut drawn_cut(index_t extent, int parts, unsigned long long salt, int dimension) {
  const auto stream = static_cast<unsigned long long>(50 + dimension);
  hg::Cut cut = hg::Cut::chunk(extent, parts);
  if (drawn(salt, stream, 0) < 0.4) return cut;
  for (int p = 1; p < parts; ++p)
    cut.bounds[static_cast<std::size_t>(p)] =
        drawn_below(static_cast<int>(extent) + 1, salt, stream, static_cast<unsigned long long>(p));
  std::sort(cut.bounds.begin(), cut.bounds.end());
  return cut;
}

/// All meshes of this type over the ranks, made once: making one is collective and costs communicators.
template <class MeshType>
const Meshes<MeshType>& meshes_of(const hg::Communicator& world) {
  static Meshes<MeshType> all[2];
  auto& meshes = all[world.size() > 1];
  if (!meshes.empty()) return meshes;
  typename hg::DeviceMesh<MeshType>::Coordinate extents{};
  extents.fill(1);
  for (;;) {  // an odometer over extents up to the number of ranks
    int product = 1;
    for (const int extent : extents) product *= extent;
    if (product == world.size()) meshes.push_back(hg::device_mesh<MeshType>(world, extents));
    std::size_t d = 0;
    while (d < extents.size() && ++extents[d] > world.size()) extents[d++] = 1;
    if (d == extents.size()) return meshes;
  }
}

/// Global values, row-major, of which a rank holds some: its own points only, the others are NaN where sharded.
struct Values {
  std::vector<std::vector<double>> arrays;
  std::vector<std::vector<index_t>> own;  ///< positions that this rank holds
};

template <class Field>
void keep(Values& values, const Field& field) {
  index_t count = 1;
  for (int d = 0; d < Field::rank; ++d) count *= field.extent(d);
  std::vector<double> array(static_cast<std::size_t>(count), std::nan(""));
  std::vector<index_t> own;
  const auto local = field.to_host();
  hg::detail::for_each_point(field, field.mesh().rank(), [&](index_t i) {
    array[static_cast<std::size_t>(i)] = static_cast<double>(local[own.size()]);
    own.push_back(i);
  });
  values.arrays.push_back(std::move(array));
  values.own.push_back(std::move(own));
}

template <class Field, class Value>
void fill(Field& field, Value value) {
  std::vector<typename Field::value_type> own;
  hg::detail::for_each_point(field, field.mesh().rank(),
                             [&](index_t i) { own.push_back(static_cast<typename Field::value_type>(value(i))); });
  field.copy_from_host(own);
}

/// A variable of this case on a mesh.
template <class Kind, class MeshType>
auto variable(const hg::DeviceMesh<MeshType>& mesh, const Case& one, int index, bool chunked) {
  using Field = typename Kind::Field;
  using T = typename Field::value_type;
  const hg::Decomposition pieces(mesh.extents(), Field::placements, MeshType::names);
  std::array<hg::Cut, Field::rank> cuts;
  for (int d = 0; d < Field::rank; ++d) {
    const int dimension = Kind::along >= 0 ? Kind::along : d;
    const index_t extent = one.extents[static_cast<std::size_t>(dimension)];
    cuts[static_cast<std::size_t>(d)] =
        chunked ? hg::Cut::chunk(extent, pieces.parts(d)) : drawn_cut(extent, pieces.parts(d), one.salt, dimension);
  }
  Field field(mesh, cuts);
  fill(field, [&](index_t i) {
    const double u =
        2 * drawn(one.salt, static_cast<unsigned long long>(index), static_cast<unsigned long long>(i)) - 1;
    return std::is_integral_v<T> ? std::floor(20 * u) : u;
  });
  return field;
}

/// The program's value, and its gradients with a cotangent drawn by position.
template <class Program, class MeshType>
Values evaluate(const hg::DeviceMesh<MeshType>& mesh, const Case& one) {
  using Kinds = typename Program::Variables;
  return [&]<std::size_t... K>(std::index_sequence<K...>) {
    const auto fields =
        std::tuple(variable<std::tuple_element_t<K, Kinds>>(mesh, one, static_cast<int>(K), Program::chunked)...);
    const auto program = [&](const auto&... v) { return Program::value(one.extents, v...); };
    using E = decltype(program(std::get<K>(fields)...));
    using Differentiated = decltype(hg::detail::call_with_variables("", program, std::get<K>(fields)...));
    constexpr bool differentiable =  // of each variable that was drawn
        Program::differentiable && hg::detail::variable_without_gradient<sizeof...(K), Differentiated>() < 0;
    Values values;
    if constexpr (std::is_same_v<typename E::placed, hg::NotPlaced>) {
      if constexpr (differentiable) {
        auto derive = hg::value_and_grad(program);
        const auto result = derive(std::get<K>(fields)...);
        values = {{{std::get<0>(result)}}, {{0}}};
        (keep(values, std::get<K + 1>(result)), ...);
      } else {
        values = {{{static_cast<double>(program(std::get<K>(fields)...).item())}}, {{0}}};
      }
    } else if constexpr (differentiable) {
      const auto [value, pull] = hg::vjp(program, std::get<K>(fields)...);
      keep(values, value);
      auto cotangent = value.clone();
      fill(cotangent, [&](index_t i) { return 2 * drawn(one.salt, 9, static_cast<unsigned long long>(i)) - 1; });
      const auto gradients = pull(cotangent);
      (keep(values, std::get<K>(gradients)), ...);
    } else {
      const hg::detail::field_of_t<E> value = program(std::get<K>(fields)...);
      keep(values, value);
    }
    return values;
  }(std::make_index_sequence<std::tuple_size_v<Kinds>>{});
}

inline bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || a == b || (a != a && b != b); }

/// Own points of `sharded` against those of `alone`. tolerance 0: to the bit.
inline std::string difference(const Values& sharded, const Values& alone, double value_tolerance, double tolerance) {
  for (std::size_t k = 0; k < sharded.arrays.size(); ++k) {
    const std::string name = k == 0 ? "value" : "gradient " + std::to_string(k - 1);
    if (sharded.arrays[k].size() != alone.arrays[k].size())
      return name + " has " + std::to_string(sharded.arrays[k].size()) + " points, alone " +
             std::to_string(alone.arrays[k].size());
    double scale = 1;
    for (const double v : alone.arrays[k])
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    for (const index_t i : sharded.own[k]) {
      const double a = sharded.arrays[k][static_cast<std::size_t>(i)], b = alone.arrays[k][static_cast<std::size_t>(i)];
      const double allowed = scale * (k == 0 ? value_tolerance : tolerance);
      if (!same_bits(a, b) && !(allowed > 0 && std::abs(a - b) <= allowed))
        return name + " at " + std::to_string(i) + " is " + std::to_string(a) + ", alone " + std::to_string(b) +
               " (difference " + std::to_string((a - b) / scale * 1e12) + "e-12 of the largest)";
    }
  }
  return "";
}

/// Collective: evaluate(mesh, values) on a mesh that the case draws, beside one rank alone.
template <class MeshType, class Evaluate>
Verdict run_beside_one(const hg::Communicator& world, const Case& one, double value_tolerance, double tolerance,
                       const Evaluate& evaluate) {
  const auto attempt = [&](const hg::DeviceMesh<MeshType>& mesh, Values& values) -> std::string {
    try {
      values = evaluate(mesh);
    } catch (const hg::CollectiveError& error) {
      return error.what();
    }
    return "";
  };
  static const auto single = hg::device_mesh<MeshType>(hg::Communicator(), [] {
    typename hg::DeviceMesh<MeshType>::Coordinate ones{};
    ones.fill(1);
    return ones;
  }());
  const auto& meshes = meshes_of<MeshType>(world);
  const auto& mesh = meshes[static_cast<std::size_t>(drawn_below(static_cast<int>(meshes.size()), one.salt, 8, 0))];
  Values alone, sharded;
  const std::string refused_alone = attempt(single, alone), refused = attempt(mesh, sharded);
  if (refused.find("lies far from where it is used") != std::string::npos) return {Outcome::far, refused};
  if (refused != refused_alone)
    return {Outcome::differs, "refused with \"" + refused + "\", alone with \"" + refused_alone + "\""};
  if (!refused.empty()) return {Outcome::refused, refused};
  std::string what = difference(sharded, alone, value_tolerance, tolerance);
  return {what.empty() ? Outcome::equal : Outcome::differs, std::move(what)};
}

template <class P>
Verdict run_program(const hg::Communicator& world, const Case& one) {
  using MeshType = typename std::tuple_element_t<0, typename P::Variables>::Field::mesh_type;
  const double rounding = std::is_same_v<typename P::T, float> ? 1e-5 : 1e-12;
  return run_beside_one<MeshType>(world, one, P::exact ? 0.0 : rounding, rounding,
                                  [&](const auto& mesh) { return evaluate<P>(mesh, one); });
}

template <class P>
struct Registered {
  Registered() { programs().push_back({P::number, P::rank, P::periodic, P::text, run_program<P>}); }
};

// -- what programs are made of ---------------------------------------------------------------------------------------

/// Every k-th point from `begin` on, zeros after them.
template <int Dim, class E>
auto every(const E& e, index_t begin, index_t step) {
  const index_t n = e.extent(Dim), first = begin % n;
  return hg::pad<Dim>(hg::slice<Dim>(e, first, n, step), 0, n - hg::ceil_div(n - first, step));
}

/// Each point of a less the one of b before it; 0 at the first.
template <int Dim, class A, class B>
auto neighbours(const A& a, const B& b) {
  const index_t n = a.extent(Dim), one = n > 1;
  return hg::pad<Dim>(hg::slice<Dim>(a, one, n) - hg::slice<Dim>(b, 0, n - one), one, 0);
}

}  // namespace support
