// What operations know that read a field at a constant distance: crops, rolls, pads of a constant.
#pragma once

#include "halogen/graph/graph.hpp"

namespace halogen::detail {

/// Output o reads input o + offset of the inputs that its window holds.
struct OffsetConstants : Constants {
  int offset[spatial_dimensions] = {};
};

/// Outputs whose window holds no input have the value.
struct ConstantPadConstants : OffsetConstants {
  double value = 0;
};

}  // namespace halogen::detail
