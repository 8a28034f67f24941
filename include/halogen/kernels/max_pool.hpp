// Max pooling and its adjoint, any kernel and stride, no padding. Ties: the first largest in row order, as PyTorch.
#pragma once

#include "halogen/kernels/pool_windows.hpp"
#include "halogen/kernels/row_kernels.hpp"

namespace halogen::kernels {
namespace detail {

/// Whether `value` takes the place of the largest so far; a NaN does, as in PyTorch. Of values or vectors of them.
template <class T>
HALOGEN_FUNCTION auto exceeds(T value, T largest) {
  return (value > largest) | (value != value);
}

}  // namespace detail

/// y[o] = max over the window. The reader has the window's depth: its planes are channels.
template <class T>
struct MaxPoolRows {
  ValueReader<T> input;
  PoolWindows windows;

  index_t inputs(index_t columns) const { return (columns - 1) * windows.stride[2] + windows.kernel[2]; }
  index_t scratch_size(index_t columns) const { return inputs(columns); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    for (int kz = 0; kz < windows.kernel[0]; ++kz)
      for (int ky = 0; ky < windows.kernel[1]; ++ky) {
        const T* in = input.row(input.depth.input(n, c * windows.kernel[0] + kz), y * windows.stride[1] + ky,
                                x0 * windows.stride[2], inputs(count), scratch);
        const bool starts = kz == 0 && ky == 0;
        index_t i = windows.kernel[2] == 2 && windows.stride[2] == 2 ? row_of_pairs(in, count, starts, out) : 0;
        for (; i < count; ++i) {
          const T* window = in + i * windows.stride[2];
          T best = starts ? window[0] : out[i];
          for (int kx = 0; kx < windows.kernel[2]; ++kx) best = detail::exceeds(window[kx], best) ? window[kx] : best;
          out[i] = best;
        }
      }
  }

  /// One row of windows 2 wide, as many as fill vectors; returns how many.
  static index_t row_of_pairs(const T* pairs, index_t count, bool first_row, T* out) {
    using V = Vector<T>;
    index_t i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) {
      V first, second;
      load_pairs<T>(pairs + 2 * i, first, second);
      V best = first_row ? first : load<V>(out + i);
      best = detail::exceeds(first, best) ? first : best;
      store(out + i, detail::exceeds(second, best) ? second : best);
    }
    return i;
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    PlaneAt plane = input.depth.input(n, c * windows.kernel[0]);
    T best = input.at(plane, y * windows.stride[1], x * windows.stride[2]);
    for (int kz = 0; kz < windows.kernel[0]; ++kz, ++plane.z)
      for (int ky = 0; ky < windows.kernel[1]; ++ky)
        for (int kx = 0; kx < windows.kernel[2]; ++kx) {
          const T value = input.at(plane, y * windows.stride[1] + ky, x * windows.stride[2] + kx);
          best = detail::exceeds(value, best) ? value : best;
        }
    return best;
  }
};

/// The gradient of input point (z, y, x) from every window that holds it and whose first largest it is.
template <class T>
struct MaxPoolBackwardRows {
  ValueReader<T> input;
  GradientReader<T> gradient;  ///< of the pooled tensor
  int first = 0;               ///< first input channel of the source that is differentiated
  PoolWindows windows;

  index_t scratch_size(index_t columns) const {
    const index_t outputs_of = columns / windows.stride[2] + windows.kernel[2] + 1;
    return outputs_of +
           ((outputs_of - 1) * windows.stride[2] + windows.kernel[2]) * windows.kernel[0] * windows.kernel[1];
  }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    const PlaneAt own = input.depth.input(n, first + c);
    const Interval planes = windows.holding(0, own.z, own.z + 1), down = windows.holding(1, y, y + 1);
    const Interval across = windows.holding(2, x0, x0 + count);
    if (across.empty()) return;
    for (index_t oz = planes.begin; oz < planes.end; ++oz)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        add_windows(own, y, {own.sample, own.channel, oz}, oy, across, x0, count, out, scratch);
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const PlaneAt own = input.depth.input(n, first + c);
    const Interval planes = windows.holding(0, own.z, own.z + 1), down = windows.holding(1, y, y + 1),
                   across = windows.holding(2, x, x + 1);
    PlaneAt output = own;
    T sum = 0;
    for (output.z = planes.begin; output.z < planes.end; ++output.z)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        for (index_t ox = across.begin; ox < across.end; ++ox)
          if (is_largest(own, y, x, output, oy, ox)) sum += gradient.at(output, oy, ox);
    return sum;
  }

 private:
  /// Row `own` of windows of Rows rows of two that do not overlap across, as many as fill vectors; returns how many.
  template <int Rows>
  static index_t row_of_pairs(const T* rows, index_t pitch, const T* g, index_t own, index_t count, T* out) {
    using V = Vector<T>;
    index_t i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) {
      V value[2 * Rows], best, at{};
      HALOGEN_UNROLL
      for (int r = 0; r < Rows; ++r) load_pairs<T>(rows + r * pitch + 2 * i, value[2 * r], value[2 * r + 1]);
      best = value[0];
      HALOGEN_UNROLL
      for (int k = 1; k < 2 * Rows; ++k) {
        const auto larger = detail::exceeds(value[k], best);
        best = larger ? value[k] : best;
        at = larger ? V{} + T(k) : at;
      }
      const V here = load<V>(g + i);
      V first, second;
      load_pairs<T>(out + 2 * i, first, second);
      first += at == V{} + T(2 * own) ? here : V{};
      second += at == V{} + T(2 * own + 1) ? here : V{};
      store_pairs<T>(out + 2 * i, first, second);
    }
    return i;
  }

  /// Host: the windows of one output row, as far as their largest lies in input row (own, y).
  void add_windows(const PlaneAt& own, index_t y, const PlaneAt& output, index_t oy, Interval across, index_t x0,
                   index_t count, T* out, T* scratch) const {
    const index_t begin = across.begin * windows.stride[2];
    const index_t width = (across.size() - 1) * windows.stride[2] + windows.kernel[2];
    T* g = scratch;
    T* rows = scratch + across.size();
    gradient.load_row(output, oy, across.begin, across.size(), g);
    PlaneAt plane = output;
    for (int kz = 0; kz < windows.kernel[0]; ++kz)
      for (int ky = 0; ky < windows.kernel[1]; ++ky) {
        plane.z = output.z * windows.stride[0] + kz;
        input.load_row(plane, oy * windows.stride[1] + ky, begin, width, rows + (kz * windows.kernel[1] + ky) * width);
      }
    const index_t own_row = (own.z - output.z * windows.stride[0]) * windows.kernel[1] + (y - oy * windows.stride[1]);
    const bool of_pairs = windows.kernel[1] == 2 && windows.kernel[2] == 2 && windows.stride[2] == 2 &&
                          windows.kernel[0] <= 2 && begin >= x0;
    index_t i = 0;
    if (of_pairs) {
      const index_t pairs = std::min(across.size(), (x0 + count - begin) / 2);
      T* to = out + (begin - x0);
      i = windows.kernel[0] == 1 ? row_of_pairs<2>(rows, width, g, own_row, pairs, to)
                                 : row_of_pairs<4>(rows, width, g, own_row, pairs, to);
    }
    for (; i < across.size(); ++i) {
      const index_t at = largest(rows + i * windows.stride[2], width);
      if (at / windows.kernel[2] != own_row) continue;
      const index_t x = begin + i * windows.stride[2] + at % windows.kernel[2] - x0;
      if (x >= 0 && x < count) out[x] += g[i];
    }
  }

  /// Position of the first largest point in the window, row by row.
  index_t largest(const T* window, index_t pitch) const {
    index_t at = 0;
    T best = window[0];
    for (int row = 0; row < windows.kernel[0] * windows.kernel[1]; ++row)
      for (int kx = 0; kx < windows.kernel[2]; ++kx)
        if (detail::exceeds(window[row * pitch + kx], best))
          best = window[row * pitch + kx], at = index_t{row} * windows.kernel[2] + kx;
    return at;
  }

  KOKKOS_FUNCTION bool is_largest(const PlaneAt& own, index_t y, index_t x, const PlaneAt& output, index_t oy,
                                  index_t ox) const {
    const index_t y0 = oy * windows.stride[1], x0 = ox * windows.stride[2];
    PlaneAt plane = output, best_plane;
    plane.z = output.z * windows.stride[0];
    T best = input.at(plane, y0, x0);
    best_plane = plane;
    index_t best_y = y0, best_x = x0;
    for (int kz = 0; kz < windows.kernel[0]; ++kz, ++plane.z)
      for (int ky = 0; ky < windows.kernel[1]; ++ky)
        for (int kx = 0; kx < windows.kernel[2]; ++kx) {
          const T value = input.at(plane, y0 + ky, x0 + kx);
          if (detail::exceeds(value, best)) best = value, best_plane = plane, best_y = y0 + ky, best_x = x0 + kx;
        }
    return best_plane.z == own.z && best_y == y && best_x == x;
  }
};

}  // namespace halogen::kernels
