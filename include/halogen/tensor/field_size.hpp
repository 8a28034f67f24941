// How large a field may be, and whether all ranks mean the same one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/placement/cut.hpp"

namespace halogen::detail {

/// Bytes of the largest field: offsets and sums of a few extents, times a few strides, then stay below 2^63.
inline constexpr index_t most_bytes = index_t{1} << 60;

/// "(4294967296 x 4294967296)"
inline std::string text_of(std::span<const index_t> extents) {
  std::string text;
  for (const index_t extent : extents) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return "(" + text + ")";
}

/// "[3, 7)"
inline std::string text_of(const Interval& points) {
  return "[" + std::to_string(points.begin) + ", " + std::to_string(points.end) + ")";
}

/// Throws CollectiveError where an extent is not positive, or the points are more bytes than can be counted. Every
/// field passes here before its extents are multiplied anywhere.
inline void check_extents_of_field(std::span<const index_t> extents, std::size_t value_bytes) {
  index_t room = most_bytes / static_cast<index_t>(value_bytes);
  for (std::size_t d = 0; d < extents.size(); ++d)
    if (extents[d] <= 0)
      throw CollectiveError("extent " + std::to_string(extents[d]) + " of dimension " + std::to_string(d) +
                            " is not positive" +
                            (std::ranges::any_of(extents.subspan(d), [](index_t extent) { return extent != 0; })
                                 ? ""
                                 : ": a field of " + std::to_string(extents.size()) +
                                       " dimensions takes as many extents, of which only " + std::to_string(d) +
                                       " were given, or the others are 0"));
  for (const index_t extent : extents)
    if ((room /= extent) == 0)
      throw CollectiveError("a field of " + text_of(extents) + " points of " + std::to_string(value_bytes) +
                            (value_bytes == 1 ? " byte" : " bytes") +
                            " has more than 2^60 bytes, the most that can be counted: give smaller extents");
}

/// A number made of the bounds of all cuts (FNV-1a), not negative.
inline std::int64_t fingerprint(std::span<const Cut> cuts) {
  std::uint64_t hash = 14695981039346656037u;
  for (const Cut& cut : cuts)
    for (const index_t bound : cut.bounds) hash = (hash ^ static_cast<std::uint64_t>(bound)) * 1099511628211u;
  return static_cast<std::int64_t>(hash >> 1);
}

/// Collective: one all_reduce of a few numbers, counted in comm_stats().checks. Throws CollectiveError on all ranks
/// where they give a field other extents, or cut it otherwise.
inline void agree_on_cuts(const Communicator& ranks, std::span<const Cut> cuts) {
  std::vector<std::int64_t> bounds;  // the largest of a number and of its complement, which is the smallest's
  const auto add = [&](std::int64_t number) { bounds.push_back(number), bounds.push_back(~number); };
  for (const Cut& cut : cuts) add(cut.extent());
  add(fingerprint(cuts));
  CommStatistics& statistics = comm_stats();
  const Tally before = statistics.all_reduces;
  ranks.all_reduce(bounds.data(), bounds.size(), ReduceOp::max);
  statistics.checks.add(static_cast<std::size_t>((statistics.all_reduces - before).bytes));
  statistics.all_reduces = before;
  for (std::size_t d = 0; d < cuts.size(); ++d)
    if (const std::int64_t most = bounds[2 * d], least = ~bounds[2 * d + 1]; most != least)
      throw CollectiveError(
          "dimension " + std::to_string(d) + " of a field has " + std::to_string(least) + " points on one rank and " +
          std::to_string(most) +
          " on another: give all ranks the same extents, those of the whole field and not of a piece");
  if (bounds[bounds.size() - 2] != ~bounds.back())
    throw CollectiveError("a field is cut otherwise on one rank than on another: give all ranks the same cuts");
}

/// Throws CollectiveError if `what` does not lie in dimension d as `other` does. The sentence begins with `caller`, and
/// says `advice` if the extents are the same.
inline void check_cut_as(const std::string& caller, const std::string& what, int d, const Cut& own,
                         const std::string& other, const Cut& wanted, const std::string& advice) {
  if (own == wanted) return;
  const std::string dimension = "dimension " + std::to_string(d);
  if (own.extent() != wanted.extent())
    throw CollectiveError(caller + what + " has " + std::to_string(own.extent()) + " points in " + dimension + ", " +
                          other + " has " + std::to_string(wanted.extent()) + ": give it the extents of " + other);
  const auto piece_of = [](const Cut& cut, int part) {
    return part < cut.parts() ? text_of(cut.piece(part)) : std::string("none");
  };
  int part = 0;
  while (piece_of(own, part) == piece_of(wanted, part)) ++part;
  throw CollectiveError(caller + what + " is cut otherwise than " + other + " in " + dimension + ": piece " +
                        std::to_string(part) + " has the points " + piece_of(own, part) + ", that of " + other + " " +
                        piece_of(wanted, part) + ": " + advice);
}

}  // namespace halogen::detail
