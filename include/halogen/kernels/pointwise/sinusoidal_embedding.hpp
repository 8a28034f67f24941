// Adds sines and cosines of a point's place.
#pragma once

#include <cmath>

#include "halogen/kernels/rows/views.hpp"
#include "halogen/kernels/rows/whole_field.hpp"

namespace halogen::kernels {

/// y = x + sin(p w_k) or x + cos(p w_k), where p is the point's place along one dimension. The channels have one part
/// for each dimension. The first half of a part are sines, the second half cosines. For index k in a half of a part
/// with `width` channels, w_k = base^(-2 k / width). Angles are double.
template <class S>
struct SinusoidalRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  WholeField field;
  int channels, dimensions;
  double base;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(n, c, y, x0, count, out);
    if (dimension(c) < spatial_dimensions - 1) {
      const T added = of_place(c, place(n, c, y, 0));
      for (index_t i = 0; i < count; ++i) out[i] += added;
    } else {
      for (index_t i = 0; i < count; ++i) out[i] += of_place(c, x0 + i);
    }
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return input.at(n, c, y, x) + of_place(c, place(n, c, y, x));
  }

 private:
  KOKKOS_FUNCTION int width() const { return channels / dimensions; }
  /// The spatial dimension of the channel: depth, height or width.
  KOKKOS_FUNCTION int dimension(int c) const { return spatial_dimensions - dimensions + c / width(); }
  KOKKOS_FUNCTION index_t place(int n, int c, index_t y, index_t x) const {
    const int d = dimension(c);
    return d == 0 ? field.plane(n) : d == 1 ? y : x;
  }
  KOKKOS_FUNCTION T of_place(int c, index_t place) const {
    const int half = width() / 2, within = c % width();
    const double angle = static_cast<double>(place) * Kokkos::pow(base, -2.0 * (within % half) / width());
    return static_cast<T>(within < half ? Kokkos::sin(angle) : Kokkos::cos(angle));
  }
};

}  // namespace halogen::kernels
