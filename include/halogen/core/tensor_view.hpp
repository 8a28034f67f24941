// A stored tensor as pointers and strides: what kernels, packing and plans hand to each other.
#pragma once

#include "halogen/core/config.hpp"

namespace halogen {

/// One stored tensor (N, C, H, W) on this rank, margins included; rows are contiguous.
template <class T>
struct TensorView {
  T* data = nullptr;
  index_t sample_stride = 0, channel_stride = 0, row_stride = 0;
  index_t y0 = 0, x0 = 0;  ///< global position of data[0], margins included

  /// The element at global x = x0 of a row; element x stands at [x - x0].
  HALOGEN_FUNCTION T* row(int n, int c, index_t y) const {
    return data + n * sample_stride + c * channel_stride + (y - y0) * row_stride;
  }
  HALOGEN_FUNCTION T& at(int n, int c, index_t y, index_t x) const { return row(n, c, y)[x - x0]; }
};

}  // namespace halogen
