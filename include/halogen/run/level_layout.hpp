// The extents and cuts of one level of a planned model, and what its dimensions are called.
#pragma once

#include <array>
#include <span>

#include "halogen/graph/graph.hpp"
#include "halogen/placement/cut.hpp"

namespace halogen {

/// Extents and cuts of one level of a planned model.
struct LevelLayout {
  Cut cut[spatial_dimensions];
  bool whole = false;  ///< Level::whole: one point, which every piece has
  index_t extent(int d) const { return cut[d].extent(); }
  Interval piece(int d, int part) const { return cut[d].piece(whole ? 0 : part); }
  index_t points() const { return extent(0) * extent(1) * extent(2); }
};

/// Names of depth, height and width, and of the points of a piece along each.
inline constexpr const char* spatial_names[spatial_dimensions] = {"depth", "height", "width"};
inline constexpr const char* spatial_points[spatial_dimensions] = {"plane", "row", "column"};

/// The tensor dimensions of a field (N, C, D, H, W), (N, C, H, W) or (N, C, W). A depth or height that the field does
/// not have gets a number that the field does not have either. No placement names it, so it is one plane or one row and
/// never cut.
constexpr std::array<int, 2 + spatial_dimensions> tensor_dimensions(std::size_t rank) {
  if (rank == 3) return {0, 1, 4, 3, 2};
  return rank == 5 ? std::array{0, 1, 2, 3, 4} : std::array{0, 1, 4, 2, 3};
}

/// Depth, height and width from a field's spatial cuts, with one plane and one row if the field has none.
inline LevelLayout finest_level(std::span<const Cut> space) {
  if (space.size() == 1) return {{Cut::chunk(1, 1), Cut::chunk(1, 1), space[0]}};
  if (space.size() == 2) return {{Cut::chunk(1, 1), space[0], space[1]}};
  return {{space[0], space[1], space[2]}};
}

}  // namespace halogen
