// How a tensor dimension is cut into pieces: chunk for inputs, derived cuts for everything computed from them.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "halogen/core/config.hpp"

namespace halogen {

/// A half-open interval of global indices; empty where end <= begin.
struct Interval {
  index_t begin = 0, end = 0;

  HALOGEN_FUNCTION constexpr index_t size() const { return end > begin ? end - begin : 0; }
  constexpr bool contains(const Interval& other) const {
    return other.size() == 0 || (begin <= other.begin && other.end <= end);
  }
  HALOGEN_FUNCTION constexpr bool empty() const { return end <= begin; }
  constexpr bool operator==(const Interval&) const = default;
};

/// Smallest interval that holds both; an empty one adds nothing.
HALOGEN_FUNCTION constexpr Interval hull(const Interval& a, const Interval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};  // std::max is no device function
}

HALOGEN_FUNCTION constexpr Interval intersect(const Interval& a, const Interval& b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

/// First index of piece `part` of `extent` points in `parts` pieces, as torch.chunk: pieces of
/// ceil(extent / parts), the last one shorter, some perhaps empty.
constexpr index_t chunk_offset(index_t extent, int parts, int part) {
  return std::min(extent, ceil_div(extent, parts) * part);
}

/// First index of piece `part` where the first extent % parts pieces have one point more: never emptier than needed.
constexpr index_t balanced_offset(index_t extent, int parts, int part) {
  return extent / parts * part + std::min<index_t>(part, extent % parts);
}

/// The pieces of one tensor dimension over all coordinates: piece i is [bounds[i], bounds[i + 1]).
struct Cut {
  std::vector<index_t> bounds{0, 0};

  int parts() const { return static_cast<int>(bounds.size()) - 1; }
  index_t extent() const { return bounds.back(); }
  Interval piece(int part) const { return {bounds[part], bounds[part + 1]}; }
  bool operator==(const Cut&) const = default;

  static Cut chunk(index_t extent, int parts) {
    return from(parts, [&](int part) { return chunk_offset(extent, parts, part); });
  }
  static Cut balanced(index_t extent, int parts) {
    return from(parts, [&](int part) { return balanced_offset(extent, parts, part); });
  }

  /// Pieces of the given sizes, which may be 0. A sum beyond what can be counted ends as the largest number: a field
  /// of so many points is refused.
  static Cut of_sizes(const std::vector<index_t>& sizes) {
    Cut cut;
    cut.bounds.assign(1, 0);
    for (const index_t size : sizes) {
      const index_t end = cut.bounds.back(), most = std::numeric_limits<index_t>::max();
      cut.bounds.push_back(size > most - end ? most : end + size);
    }
    return cut;
  }

  /// The cut of a window's output, derived so that a coarse row lives where its first fine row does:
  /// ceil(bound / stride), ends clamped to the output's extent. Never chunk anew on a coarser level.
  Cut derived(index_t stride, index_t output_extent) const {
    Cut cut = from(parts(), [&](int part) { return std::min(output_extent, ceil_div(bounds[part], stride)); });
    cut.bounds.back() = output_extent;
    return cut;
  }

  /// The cut of a transposed window's output: a fine row lives where the coarse row before it does, ends clamped.
  Cut spread(index_t stride, index_t output_extent) const {
    Cut cut = from(parts(), [&](int part) { return std::min(output_extent, bounds[part] * stride); });
    cut.bounds.back() = output_extent;
    return cut;
  }

  /// The cut of a padded field: each piece keeps its points, the ends take what was padded.
  Cut padded(index_t before, index_t output_extent) const {
    Cut cut = from(parts(), [&](int part) { return bounds[part] + before; });
    cut.bounds.front() = 0;
    cut.bounds.back() = output_extent;
    return cut;
  }

  /// The cut of a field that is resampled to another extent: a point lives where the input before it does.
  Cut resampled(index_t output_extent) const {
    return from(parts(), [&](int part) { return ceil_div(bounds[part] * output_extent, extent()); });
  }

  /// First piece without a point, or -1.
  int first_empty_piece() const {
    for (int part = 0; part < parts(); ++part)
      if (piece(part).empty()) return part;
    return -1;
  }

 private:
  template <class Offset>
  static Cut from(int parts, Offset offset) {
    Cut cut;
    cut.bounds.clear();
    for (int part = 0; part <= parts; ++part) cut.bounds.push_back(offset(part));
    return cut;
  }
};

}  // namespace halogen
