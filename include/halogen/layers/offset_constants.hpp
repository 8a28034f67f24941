// Constants of operations that read a field at a constant distance: crops, rolls, constant pads.
#pragma once

#include "halogen/graph/graph.hpp"

namespace halogen::detail {

/// Output o reads the input o + offset, if its window contains it.
struct OffsetConstants : Constants {
  int offset[spatial_dimensions] = {};
};

/// Outputs whose window contains no input have this value.
struct ConstantPadConstants : OffsetConstants {
  double value = 0;
};

}  // namespace halogen::detail
