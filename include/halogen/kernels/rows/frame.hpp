// Where a reader's field ends, the depth of its window, and rows that are read inside of it.
#pragma once

#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/vector/simd.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::kernels {

/// Where a reader's field ends. Beyond its ends it reads 0 or, if periodic, the images of the other end in the margin.
struct Frame {
  index_t extent[spatial_dimensions] = {1, 0, 0};
  bool periodic[spatial_dimensions] = {false, false, false};

  HALOGEN_FUNCTION bool outside(int dimension, index_t position) const {
    return !periodic[dimension] && (position < 0 || position >= extent[dimension]);
  }
  bool has_columns(index_t x0, index_t count) const { return columns_inside({x0, x0 + count}).size() == count; }
  Interval columns_inside(const Interval& columns) const {
    return periodic[2] ? columns : intersect(columns, {0, extent[2]});
  }
};

/// The depth of a window. Kernels are two-dimensional: they count the planes that they compute as samples, and the
/// planes of a window as channels. Sample n is output plane first + n % planes of sample n / planes. Channel c is tap c
/// % kernel of channel c / kernel, like the memory of PyTorch's (Out, In, KD, KH, KW).
struct DepthWindow {
  int planes = 1, kernel = 1, stride = 1, dilation = 1;
  index_t first = 0, padding = 0;

  HALOGEN_FUNCTION PlaneAt input(int n, int c) const {
    index_t z = first;
    if (planes > 1) z += n % planes, n /= planes;
    z = z * stride - padding;
    if (kernel > 1) z += index_t{c % kernel} * dilation, c /= kernel;
    return {n, c, z};
  }
};

/// Points of a row that the host computes at once if it needs all channels or values of a point: they fit in L1.
inline constexpr index_t points_at_once = 128;

namespace detail {

/// Fills out[0, count) for positions x0.. with 0 outside the frame's columns and read(x_begin, size, out) inside.
template <class T, class Read>
inline void read_inside(const Frame& frame, index_t x0, index_t count, T* out, Read read) {
  index_t begin = x0, end = x0 + count;
  if (!frame.periodic[2]) {
    begin = begin < 0 ? 0 : begin;
    end = end > frame.extent[2] ? frame.extent[2] : end;
    if (begin >= end) begin = end = x0;
    for (index_t x = x0; x < begin; ++x) out[x - x0] = T(0);
    for (index_t x = end; x < x0 + count; ++x) out[x - x0] = T(0);
  }
  if (end > begin) read(begin, end - begin, out + (begin - x0));
}

/// Copies a row of values. Stored values are converted, and values to be stored are rounded here.
template <class From, class To>
inline void copy_row(const From* from, index_t count, To* to) {
  for_each_vector<compute_type<To>>(count, [&]<class V>(index_t i) { store<V>(to + i, load_ahead<V>(from + i)); });
}

}  // namespace detail
}  // namespace halogen::kernels
