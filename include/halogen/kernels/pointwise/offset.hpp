// Points moved by an offset: y[o] = x[o + offset].
#pragma once

#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {

/// The offsets are in depth, height and width. Beyond the reader's field it reads 0, or periodic images if the field is
/// periodic.
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

  /// The plane that is read.
  HALOGEN_FUNCTION PlaneAt plane(int n, int c) const {
    PlaneAt at = depth.input(n, first + c);
    at.z += offset[0];
    return at;
  }
};

/// The same, but with a given value beyond the field.
template <class S>
struct ConstantPadRows {
  using T = compute_type<S>;
  OffsetRows<S, ValueReader<S>> field;
  T value;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const bool reads = !frame().outside(0, field.plane(n, c).z) && !frame().outside(1, y + field.offset[1]);
    const index_t begin = x0 + field.offset[2];
    const Interval inside = reads ? intersect({begin, begin + count}, {0, frame().extent[2]}) : Interval{begin, begin};
    if (!inside.empty()) field.row(n, c, y, x0, count, out, scratch);
    for (index_t x = begin; x < begin + count; ++x)
      if (x < inside.begin || x >= inside.end) out[x - begin] = value;
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const bool beyond = frame().outside(0, field.plane(n, c).z) || frame().outside(1, y + field.offset[1]) ||
                        frame().outside(2, x + field.offset[2]);
    return beyond ? value : field.at(n, c, y, x);
  }

 private:
  KOKKOS_FUNCTION const Frame& frame() const { return field.input.frame; }
};

}  // namespace halogen::kernels
