// Points that lie elsewhere: y[o] = x[o + offset].
#pragma once

#include "halogen/kernels/row_kernels.hpp"

namespace halogen::kernels {

/// Depth, height and width of the offsets. Beyond the reader's field it reads 0, or images where that is periodic.
template <class S, class Reader>
struct OffsetRows {
  using T = compute_type<S>;
  Reader input;
  DepthWindow depth;  ///< of the planes that the launch computes
  index_t offset[spatial_dimensions];
  int first = 0;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(plane(n, c), y + offset[1], x0 + offset[2], count, out);
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return input.at(plane(n, c), y + offset[1], x + offset[2]);
  }

 private:
  HALOGEN_FUNCTION PlaneAt plane(int n, int c) const {
    PlaneAt at = depth.input(n, first + c);
    at.z += offset[0];
    return at;
  }
};

}  // namespace halogen::kernels
