// Fingerprints of plans: what a plan is on all ranks of a mesh that does not exist, in one row of numbers and one hash
// of explain's words; rows in a file that people compare.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/train/explain_training.hpp"

namespace support {

namespace hg = halogen;

/// 64-bit FNV-1a.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// A mesh of data x height x width, or what the model's fields have in place of height; `uneven`: cut in about 3 : 5
/// and 2 : 1; `shards`: with parameters sharded over "data" as well.
struct PlanMesh {
  const char* name;
  std::array<int, 3> ranks;
  bool uneven = false, shards = false;

  int size() const { return ranks[0] * ranks[1] * ranks[2]; }
};

/// A model on fields of one type, without its types. Extents: samples, depth (of volumes), height, width.
struct PlannedModel {
  const char* name;
  hg::Layout (*layout)(hg::PlanKind kind, const PlanMesh& mesh, int rank, bool odd, const hg::MemoryLimit& limit);
  std::shared_ptr<const hg::ParameterSharding> (*sharding)(const PlanMesh& mesh, int rank);
};

namespace detail {

/// Cuts of an extent into so many parts.
inline hg::Cut plan_cut(hg::index_t extent, int parts, bool uneven, bool small_first) {
  if (!uneven || parts != 2) return hg::Cut::chunk(extent, parts);
  const hg::index_t first = small_first ? extent * 3 / 8 : extent - extent / 3;
  return hg::Cut::of_sizes({first, extent - first});
}

template <class Image, class Model>
hg::Layout plan_layout(hg::PlanKind kind, const PlanMesh& at, int rank, bool odd, const hg::MemoryLimit& limit) {
  using MeshType = typename Image::mesh_type;
  constexpr bool volume = Image::rank == 5;
  const hg::Decomposition pieces(at.ranks, Image::placements, MeshType::names);
  const hg::index_t even_extents[] = {2, Image::tensor_type::extents[1], 12, 24, 32};
  const hg::index_t odd_extents[] = {3, Image::tensor_type::extents[1], 11, 23, 37};
  std::array<hg::Cut, Image::rank> cuts;
  for (int d = 0; d < Image::rank; ++d) {
    const int from = d + (!volume && d > 1);
    cuts[static_cast<std::size_t>(d)] =
        plan_cut((odd ? odd_extents : even_extents)[from], pieces.parts(d), at.uneven && d > 1, d < Image::rank - 1);
  }
  return hg::layout_of<Image>(Model{}, hg::dry_mesh<MeshType>(at.ranks, rank), cuts, kind, limit);
}

template <class Image, class Model>
std::shared_ptr<const hg::ParameterSharding> plan_sharding(const PlanMesh& at, int rank) {
  using MeshType = typename Image::mesh_type;
  using T = hg::compute_type<typename Image::value_type>;
  return hg::shard_parameters<"data">.template on<Model, T>(hg::dry_mesh<MeshType>(at.ranks, rank));
}

}  // namespace detail

template <class Image, class Model>
PlannedModel plan_model(const char* name) {
  return {name, detail::plan_layout<Image, Model>, detail::plan_sharding<Image, Model>};
}

inline constexpr std::pair<hg::PlanKind, const char*> plan_kinds[] = {
    {hg::PlanKind::inference, "inference"},
    {hg::PlanKind::training, "training"},
    {hg::PlanKind::training_with_input_gradient, "training_with_input_gradient"},
    {hg::PlanKind::vjp, "vjp"}};

/// One plan on all ranks of one mesh.
struct PlanPrint {
  static constexpr const char* names[] = {"launches",    "stages",     "stored tensors",  "halo messages", "halo bytes",
                                          "arena bytes", "kept bytes", "workspace bytes", "exchange bytes"};
  static constexpr int of_plan = 3;  ///< the first are the plan's, the others sums over ranks
  std::array<std::uint64_t, std::size(names)> numbers{};
  std::uint64_t by_rank = fnv1a("");  ///< hash of every rank's numbers
  std::uint64_t words = fnv1a("");    ///< hash of every rank's explain; of the sentence where the mesh is refused
  bool refused = false;

  bool same_numbers(const PlanPrint& other) const {
    return numbers == other.numbers && by_rank == other.by_rank && refused == other.refused;
  }
};

/// The print, and in `texts` all that its hashes were made of.
inline PlanPrint plan_print(const PlannedModel& model, hg::PlanKind kind, const PlanMesh& mesh, bool odd,
                            std::string& texts) {
  PlanPrint print;
  try {
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const hg::Layout layout = model.layout(kind, mesh, rank, odd, {});
      const hg::Plan& plan = layout.plan();
      const auto traffic = layout.traffic();
      const auto& memory = layout.memory();
      const std::array<std::uint64_t, std::size(PlanPrint::names)> numbers{
          static_cast<std::uint64_t>(plan.launches.size()),
          static_cast<std::uint64_t>(plan.stages),
          static_cast<std::uint64_t>(plan.tensors.size()),
          static_cast<std::uint64_t>(traffic.messages),
          static_cast<std::uint64_t>(traffic.bytes),
          layout.arena_bytes(),
          memory.kept,
          memory.workspace,
          memory.exchange};
      std::string line;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        print.numbers[i] = i < PlanPrint::of_plan ? numbers[i] : print.numbers[i] + numbers[i];
        line += std::string(i > 0 ? ", " : "") + PlanPrint::names[i] + " " + std::to_string(numbers[i]);
      }
      std::string words = hg::explain(layout);
      if (mesh.shards) words += "sharded over data\n" + hg::explain(layout, model.sharding(mesh, rank).get());
      print.by_rank = fnv1a(line, print.by_rank);
      print.words = fnv1a(words, print.words);
      texts += line + "\n" + words + "\n";
    }
  } catch (const hg::CollectiveError& error) {
    print = {};
    print.refused = true;
    print.words = fnv1a(error.what());
    texts += std::string("refused: ") + error.what() + "\n";
  }
  return print;
}

/// Prints by "model kind", then by "extents mesh".
class PlanPrints {
 public:
  using Rows = std::map<std::string, PlanPrint>;

  void add(const std::string& plan, const std::string& field, const PlanPrint& print) { plans_[plan][field] = print; }
  const std::map<std::string, Rows>& plans() const { return plans_; }
  const PlanPrint* find(const std::string& plan, const std::string& field) const {
    const auto rows = plans_.find(plan);
    if (rows == plans_.end() || !rows->second.contains(field)) return nullptr;
    return &rows->second.at(field);
  }

  void write(const std::string& path) const {
    std::ofstream file(path);
    file << head;
    for (const auto& [plan, rows] : plans_) {
      const PlanPrint* any = nullptr;
      for (const auto& [field, print] : rows)
        if (!print.refused) any = &print;
      file << plan;
      for (std::size_t i = 0; any != nullptr && i < PlanPrint::of_plan; ++i) file << " " << any->numbers[i];
      file << "\n";
      for (const auto& [field, print] : rows) {
        file << " " << field;
        for (std::size_t i = PlanPrint::of_plan; !print.refused && i < print.numbers.size(); ++i)
          file << " " << print.numbers[i];
        file << (print.refused ? " refused" : " " + hexadecimal(print.by_rank)) << " " << hexadecimal(print.words)
             << "\n";
      }
    }
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
  }

  static PlanPrints read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    PlanPrints prints;
    std::string line, plan;
    std::array<std::uint64_t, PlanPrint::of_plan> own{};
    while (std::getline(file, line)) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string first, second, word;
      words >> first >> second;
      if (line[0] != ' ') {
        plan = first + " " + second;
        own = {};
        for (std::uint64_t& number : own) words >> number;
        prints.plans_[plan];
        continue;
      }
      PlanPrint print;
      for (std::size_t i = 0; words >> word && i < print.numbers.size() - PlanPrint::of_plan && word != "refused"; ++i)
        print.numbers[PlanPrint::of_plan + i] = std::stoull(word);
      if (word == "refused")
        print.refused = true;
      else
        std::copy(own.begin(), own.end(), print.numbers.begin()), print.by_rank = std::stoull(word, nullptr, 16);
      words >> std::hex >> print.words;
      if (!words) throw std::runtime_error(path + ": " + plan + " has a row of too few words: " + line);
      prints.add(plan, first + " " + second, print);
    }
    return prints;
  }

 private:
  static constexpr const char* head =
      "# Plans as they were when this file was written; tests/unit/plan_fingerprints.cpp says how.\n"
      "# model kind launches stages stored_tensors\n"
      "#  extents mesh halo_messages halo_bytes arena kept workspace exchange (bytes, sums over ranks) "
      "hash_of_all_ranks'"
      "_numbers hash_of_explain\n"
      "#  extents mesh refused hash_of_the_sentence\n";

  static std::string hexadecimal(std::uint64_t number) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
    return text;
  }

  std::map<std::string, Rows> plans_;
};

/// What differs, in words; empty where nothing does. Where numbers agree and only words of explain differ it says so.
inline std::string plan_differences(const PlanPrint& now, const PlanPrint& then) {
  if (now.refused != then.refused) return now.refused ? "is refused now, was not" : "is no longer refused";
  std::string differences;
  for (std::size_t i = 0; i < now.numbers.size(); ++i)
    if (now.numbers[i] != then.numbers[i])
      differences += std::string(PlanPrint::names[i]) + " " + std::to_string(now.numbers[i]) + ", were " +
                     std::to_string(then.numbers[i]) + "; ";
  if (differences.empty() && now.by_rank != then.by_rank)
    differences = "numbers of single ranks, though their sums are the same; ";
  if (now.words == then.words) return differences;
  if (now.refused) return "the sentence of the refusal";
  return differences + (differences.empty() ? "only the words of explain" : "and the words of explain");
}

}  // namespace support
