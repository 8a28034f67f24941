// Parameters that lie on a field: a number for each point of a level and each channel.
#pragma once

#include "halogen/stencil/window.hpp"

namespace halogen {

/// How such numbers lie in their table, row by row: (channels, D, H, W), or (D, H, W, channels). `before` other values
/// come first. They belong to no point.
struct PointNumbers {
  int level = -1;  ///< the level whose points have numbers; -1: the parameter lies on no field
  int channels = 0;
  bool channels_first = false;
  index_t before = 0;
  index_t extent[spatial_dimensions] = {1, 1, 1};

  constexpr bool stand() const { return level >= 0; }
  constexpr bool operator==(const PointNumbers&) const = default;
};

}  // namespace halogen
