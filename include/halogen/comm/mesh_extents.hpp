// Extents of a mesh against the number of ranks, with the sentences that refuse what does not fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "halogen/comm/communicator.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// In place of a number of ranks, for meshes of ranks that do not exist; nothing can be inferred then.
inline constexpr int as_many_as_needed = -1;

/// "2 x 3 (height x width)"
std::string mesh_text(std::span<const int> extents, std::span<const std::string_view> names);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string mesh_text(std::span<const int> extents, std::span<const std::string_view> names) {
  std::string numbers;
  std::string words;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    numbers += (i ? " x " : "") + std::to_string(extents[i]);
    words += (i ? " x " : "") + std::string(names[i]);
  }
  return numbers + " (" + words + ")";
}
#endif

/// Replaces one -1 by what `ranks` leaves for it and returns the number of ranks of the mesh. Needs no communication:
/// given equal arguments every rank throws the same CollectiveError.
int infer_extents(std::span<int> extents, std::span<const std::string_view> names, int ranks);
#if HALOGEN_BODIES
HALOGEN_INLINE int infer_extents(std::span<int> extents, std::span<const std::string_view> names, int ranks) {
  const std::string mesh = "mesh " + mesh_text(extents, names);
  int* inferred = nullptr;
  std::int64_t product = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == -1) {
      if (inferred) throw CollectiveError(mesh + " leaves two extents to be inferred: at most one may be -1");
      inferred = &extents[i];
    } else if (extents[i] <= 0) {
      throw CollectiveError(mesh + " has extent " + std::to_string(extents[i]) + " in " + std::string(names[i]) +
                            ": use positive extents, or -1 for the one to be inferred");
    } else if ((product *= extents[i]) > std::numeric_limits<int>::max()) {
      throw CollectiveError(mesh + " needs more ranks than can be counted: use smaller extents");
    }
  }
  if (ranks == as_many_as_needed) {
    if (inferred) throw CollectiveError(mesh + " leaves an extent to be inferred, but there are no ranks to count");
    return static_cast<int>(product);
  }
  const std::string started = std::to_string(ranks) + (ranks == 1 ? " was" : " were") + " started";
  const std::string other = ", or a mesh whose extents multiply to " + std::to_string(ranks);
  if (inferred) {
    if (ranks % product != 0)
      throw CollectiveError(mesh + " needs a multiple of " + std::to_string(product) + " ranks, but " + started +
                            ": use mpirun -n " + std::to_string((ranks / product + 1) * product) + other);
    *inferred = static_cast<int>(ranks / product);
  } else if (product != ranks) {
    throw CollectiveError(mesh + " needs " + std::to_string(product) + (product == 1 ? " rank" : " ranks") + ", but " +
                          started + ": use mpirun -n " + std::to_string(product) + other);
  }
  return ranks;
}
#endif

/// Collective, one all_reduce: ranks that were given different extents would otherwise wait for each other.
template <std::size_t Rank>
void check_same_extents(const Communicator& world, const std::array<int, Rank>& extents) {
  std::array<int, 2 * Rank> bounds{};
  for (std::size_t i = 0; i < Rank; ++i) bounds[2 * i] = extents[i], bounds[2 * i + 1] = ~extents[i];
  world.all_reduce(bounds.data(), bounds.size(), ReduceOp::max);
  for (std::size_t i = 0; i < Rank; ++i)
    if (bounds[2 * i] != ~bounds[2 * i + 1])
      throw CollectiveError("mesh extent " + std::to_string(i) + " is " + std::to_string(~bounds[2 * i + 1]) +
                            " on one rank and " + std::to_string(bounds[2 * i]) +
                            " on another: give all ranks the same mesh");
}

}  // namespace halogen::detail
