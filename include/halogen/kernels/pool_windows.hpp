// The windows of a pool.
#pragma once

#include "halogen/kernels/views.hpp"

namespace halogen::kernels {

struct PoolWindows {
  int kernel[spatial_dimensions], stride[spatial_dimensions];
  index_t outputs[spatial_dimensions];  ///< extents of the pooled tensor

  /// Outputs whose window holds an input of [begin, end) in dimension d.
  HALOGEN_FUNCTION Interval holding(int d, index_t begin, index_t end) const {
    return intersect(Window{.kernel = kernel[d], .stride = stride[d]}.output_of({begin, end}), {0, outputs[d]});
  }
};

}  // namespace halogen::kernels
