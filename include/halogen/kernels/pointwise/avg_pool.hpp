// Average pooling and its adjoint, for any window. Adds plane by plane and row by row, then divides by the number of
// points that count.
#pragma once

#include "halogen/kernels/rows/space_window.hpp"
#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {

/// The number of points by which the sum of a window is divided: those within [begin, end) in each dimension.
struct PooledPoints {
  index_t begin[spatial_dimensions], end[spatial_dimensions];
  bool all = false;  ///< every window is within them

  HALOGEN_FUNCTION index_t of(const SpaceWindow& windows, int d, index_t output) const {
    const index_t first = windows.input(d, output, 0), last = first + windows.kernel(d);
    return (last < end[d] ? last : end[d]) - (first > begin[d] ? first : begin[d]);
  }
  template <class T>
  HALOGEN_FUNCTION T scale(const SpaceWindow& windows) const {
    return T(1) / static_cast<T>(windows.kernel(0) * windows.kernel(1) * windows.kernel(2));
  }
  template <class T>
  HALOGEN_FUNCTION T scale(const SpaceWindow& windows, index_t z, index_t y, index_t x) const {
    if (all) return scale<T>(windows);
    return T(1) / static_cast<T>(of(windows, 0, z) * of(windows, 1, y) * of(windows, 2, x));
  }
};

/// y[o] = mean over the window. The reader has the window's depth: the planes of a window are channels.
template <class S>
struct AvgPoolRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  SpaceWindow windows;
  PooledPoints points;

  index_t scratch_size(index_t columns) const { return windows.inputs(2, columns); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    for (int kz = 0; kz < windows.kernel(0); ++kz) {
      const PlaneAt plane = input.depth.input(n, c * windows.kernel(0) + kz);
      for (int ky = 0; ky < windows.kernel(1); ++ky) {
        input.load_row(plane, windows.input(1, y, ky), windows.input(2, x0, 0), windows.inputs(2, count), scratch);
        for (index_t i = 0; i < count; ++i) {
          T sum = kz == 0 && ky == 0 ? T(0) : out[i];
          for (int kx = 0; kx < windows.kernel(2); ++kx) sum += scratch[i * windows.stride(2) + kx];
          out[i] = sum;
        }
      }
    }
    if (points.all) {
      const T scale = points.scale<T>(windows);
      for (index_t i = 0; i < count; ++i) out[i] *= scale;
    } else {
      const index_t z = plane_of(n);
      for (index_t i = 0; i < count; ++i) out[i] *= points.scale<T>(windows, z, y, x0 + i);
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    T sum = 0;
    for (int kz = 0; kz < windows.kernel(0); ++kz) {
      const PlaneAt plane = input.depth.input(n, c * windows.kernel(0) + kz);
      for (int ky = 0; ky < windows.kernel(1); ++ky)
        for (int kx = 0; kx < windows.kernel(2); ++kx)
          sum += input.at(plane, windows.input(1, y, ky), windows.input(2, x, kx));
    }
    return sum * points.scale<T>(windows, plane_of(n), y, x);
  }

 private:
  /// The output's plane in its volume.
  HALOGEN_FUNCTION index_t plane_of(int n) const { return input.depth.first + n % input.depth.planes; }
};

/// The gradient of an input point: the sum over the windows that hold it. Each window's share is divided by its number
/// of points that count.
template <class S>
struct AvgPoolBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> gradient;  ///< of the pooled tensor
  int first = 0;               ///< first input channel of the source that is differentiated
  SpaceWindow windows;
  PooledPoints points;

  index_t scratch_size(index_t columns) const { return columns / windows.stride(2) + windows.kernel(2) + 1; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    PlaneAt plane = gradient.depth.input(n, first + c);
    const Interval planes = windows.holding(0, plane.z, plane.z + 1), down = windows.holding(1, y, y + 1),
                   across = windows.holding(2, x0, x0 + count);
    if (across.empty()) return;
    for (plane.z = planes.begin; plane.z < planes.end; ++plane.z)
      for (index_t o = down.begin; o < down.end; ++o) {
        gradient.load_row(plane, o, across.begin, across.size(), scratch);
        for (index_t i = 0; i < across.size(); ++i) {
          const index_t x = windows.input(2, across.begin + i, 0) - x0,
                        end = std::min<index_t>(count, x + windows.kernel(2));
          const T share = points.all ? scratch[i] : scratch[i] * points.scale<T>(windows, plane.z, o, across.begin + i);
          for (index_t k = std::max<index_t>(x, 0); k < end; ++k) out[k] += share;
        }
      }
    if (!points.all) return;
    const T scale = points.scale<T>(windows);
    for (index_t i = 0; i < count; ++i) out[i] *= scale;
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    PlaneAt plane = gradient.depth.input(n, first + c);
    const Interval planes = windows.holding(0, plane.z, plane.z + 1), down = windows.holding(1, y, y + 1),
                   across = windows.holding(2, x, x + 1);
    T sum = 0;
    for (plane.z = planes.begin; plane.z < planes.end; ++plane.z)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        for (index_t ox = across.begin; ox < across.end; ++ox) {
          const T share = gradient.at(plane, oy, ox);
          sum += points.all ? share : share * points.scale<T>(windows, plane.z, oy, ox);
        }
    return points.all ? sum * points.scale<T>(windows) : sum;
  }
};

}  // namespace halogen::kernels
