// Max pooling and its adjoint, for any window. Of equal points the first in row order is the largest, as in PyTorch.
// Padding is never the largest.
#pragma once

#include "halogen/kernels/rows/space_window.hpp"
#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {
namespace detail {

/// Whether `value` replaces the largest so far. A NaN does, as in PyTorch. For values or vectors of them.
template <class T>
HALOGEN_FUNCTION auto exceeds(T value, T largest) {
  return (value > largest) | (value != value);
}

/// Points [x0, x0 + count) of a row of the field. Beyond the row's ends they are -infinity, unless it is periodic.
/// Returns the row where it is in memory, or `scratch`.
template <class S, class T>
const T* row_for_maxima(const ValueReader<S>& reader, const PlaneAt& plane, index_t y, index_t x0, index_t count,
                        T* scratch) {
  if (x0 >= 0 && x0 + count <= reader.frame.extent[2])
    if (const T* in = reader.standing_row(plane, y, x0, count)) return in;
  reader.load_row(plane, y, x0, count, scratch);
  if (reader.frame.periodic[2]) return scratch;
  const index_t begin = std::clamp<index_t>(-x0, 0, count),
                end = std::clamp<index_t>(reader.frame.extent[2] - x0, 0, count);
  std::fill(scratch, scratch + begin, -std::numeric_limits<T>::infinity());
  std::fill(scratch + end, scratch + count, -std::numeric_limits<T>::infinity());
  return scratch;
}

}  // namespace detail

/// y[o] = max over the window. The reader has the window's depth: the planes of a window are channels.
template <class S>
struct MaxPoolRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  SpaceWindow windows;

  index_t scratch_size(index_t columns) const { return windows.inputs(2, columns); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const bool of_pairs = windows.kernel(2) == 2 && windows.stride(2) == 2 && windows.dilation(2) == 1;
    bool starts = true;
    for (int kz = 0; kz < windows.kernel(0); ++kz) {
      const PlaneAt plane = input.depth.input(n, c * windows.kernel(0) + kz);
      if (input.frame.outside(0, plane.z)) continue;
      for (int ky = 0; ky < windows.kernel(1); ++ky) {
        const index_t at = windows.input(1, y, ky);
        if (input.frame.outside(1, at)) continue;
        const T* in =
            detail::row_for_maxima(input, plane, at, windows.input(2, x0, 0), windows.inputs(2, count), scratch);
        index_t i = of_pairs ? row_of_pairs(in, count, starts, out) : 0;
        for (; i < count; ++i) {
          const T* window = in + i * windows.stride(2);
          T best = starts ? window[0] : out[i];
          for (int kx = 0; kx < windows.kernel(2); ++kx) {
            const T value = window[kx * windows.dilation(2)];
            best = detail::exceeds(value, best) ? value : best;
          }
          out[i] = best;
        }
        starts = false;
      }
    }
    if (starts) std::fill_n(out, count, -std::numeric_limits<T>::infinity());
  }

  /// Handles as many windows of width 2 in one row as fill whole vectors. Returns how many.
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
    T best = -Kokkos::Experimental::infinity_v<T>;
    for (int kz = 0; kz < windows.kernel(0); ++kz) {
      const PlaneAt plane = input.depth.input(n, c * windows.kernel(0) + kz);
      for (int ky = 0; ky < windows.kernel(1); ++ky)
        for (int kx = 0; kx < windows.kernel(2); ++kx) {
          const index_t at_y = windows.input(1, y, ky), at_x = windows.input(2, x, kx);
          if (input.frame.outside(0, plane.z) || input.frame.outside(1, at_y) || input.frame.outside(2, at_x)) continue;
          const T value = input.at(plane, at_y, at_x);
          best = detail::exceeds(value, best) ? value : best;
        }
    }
    return best;
  }
};

/// The gradient of input point (z, y, x), from every window whose first largest point it is.
template <class S>
struct MaxPoolBackwardRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  GradientReader<S> gradient;  ///< of the pooled tensor
  int first = 0;               ///< first input channel of the source that is differentiated
  SpaceWindow windows;

  index_t scratch_size(index_t columns) const {
    const index_t outputs_of = (columns + windows.window[2].span()) / windows.stride(2) + 1;
    return outputs_of + windows.inputs(2, outputs_of) * windows.kernel(0) * windows.kernel(1);
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
    const Interval planes = windows.holding(0, own.z, own.z + 1), down = windows.holding(1, y, y + 1);
    const Interval across = windows.holding(2, x, x + 1);
    PlaneAt output = own;
    T sum = 0;
    for (output.z = planes.begin; output.z < planes.end; ++output.z)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        for (index_t ox = across.begin; ox < across.end; ++ox)
          if (is_largest(own, y, x, output, oy, ox)) sum += gradient.at(output, oy, ox);
    return sum;
  }

 private:
  /// Row `own` of windows with Rows rows of two points that do not overlap across. Handles as many as fill whole
  /// vectors and returns how many.
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

  /// Host: adds the gradients of the windows of one output row whose largest point is in input row (own, y).
  void add_windows(const PlaneAt& own, index_t y, const PlaneAt& output, index_t oy, Interval across, index_t x0,
                   index_t count, T* out, T* scratch) const {
    const index_t tap_z = windows.tap(0, own.z, output.z), tap_y = windows.tap(1, y, oy);
    if (tap_z < 0 || tap_y < 0) return;
    const index_t begin = windows.input(2, across.begin, 0), width = windows.inputs(2, across.size());
    T* g = scratch;
    T* rows = scratch + across.size();
    gradient.load_row(output, oy, across.begin, across.size(), g);
    PlaneAt plane = output;
    int first_row = -1;  // the first row inside the field: it has the largest if all points are equal
    for (int kz = 0; kz < windows.kernel(0); ++kz)
      for (int ky = 0; ky < windows.kernel(1); ++ky) {
        const int row = kz * windows.kernel(1) + ky;
        T* to = rows + row * width;
        plane.z = windows.input(0, output.z, kz);
        const index_t at = windows.input(1, oy, ky);
        if (input.frame.outside(0, plane.z) || input.frame.outside(1, at)) {
          std::fill_n(to, width, -std::numeric_limits<T>::infinity());
          continue;
        }
        const T* in = detail::row_for_maxima(input, plane, at, begin, width, to);
        if (in != to) detail::copy_row(in, width, to);
        if (first_row < 0) first_row = row;
      }
    const index_t own_row = tap_z * windows.kernel(1) + tap_y;
    index_t i = 0;
    if (pairs() && begin >= x0) {
      const index_t pairs = std::min(across.size(), (x0 + count - begin) / 2);
      T* to = out + (begin - x0);
      i = windows.kernel(0) == 1 ? row_of_pairs<2>(rows, width, g, own_row, pairs, to)
                                 : row_of_pairs<4>(rows, width, g, own_row, pairs, to);
    }
    for (; i < across.size(); ++i) {
      const index_t at = largest(rows, width, i * windows.stride(2), begin, first_row);
      if (at / windows.kernel(2) != own_row) continue;
      const index_t x = begin + i * windows.stride(2) + at % windows.kernel(2) * windows.dilation(2) - x0;
      if (x >= 0 && x < count) out[x] += g[i];
    }
  }

  /// Whether windows are two wide and side by side, with at most four rows and without padding.
  bool pairs() const {
    bool pairs = windows.kernel(0) <= 2 && windows.kernel(1) == 2 && windows.kernel(2) == 2 && windows.stride(2) == 2;
    for (const Window& window : windows.window) pairs = pairs && window.padding == 0 && window.dilation == 1;
    return pairs;
  }

  /// The position, counted row by row, of the first largest point in the window whose first tap is rows[.][along].
  index_t largest(const T* rows, index_t pitch, index_t along, index_t begin, int first_row) const {
    int kx = 0;
    while (kx + 1 < windows.kernel(2) && input.frame.outside(2, begin + along + kx * windows.dilation(2))) ++kx;
    index_t at = index_t{first_row} * windows.kernel(2) + kx;
    T best = rows[first_row * pitch + along + kx * windows.dilation(2)];
    for (int row = 0; row < windows.kernel(0) * windows.kernel(1); ++row)
      for (kx = 0; kx < windows.kernel(2); ++kx) {
        const T value = rows[row * pitch + along + kx * windows.dilation(2)];
        if (detail::exceeds(value, best)) best = value, at = index_t{row} * windows.kernel(2) + kx;
      }
    return at;
  }

  KOKKOS_FUNCTION bool is_largest(const PlaneAt& own, index_t y, index_t x, const PlaneAt& output, index_t oy,
                                  index_t ox) const {
    PlaneAt plane = output;
    T best = 0;
    bool any = false, is_own = false;
    for (int kz = 0; kz < windows.kernel(0); ++kz) {
      plane.z = windows.input(0, output.z, kz);
      for (int ky = 0; ky < windows.kernel(1); ++ky)
        for (int kx = 0; kx < windows.kernel(2); ++kx) {
          const index_t at_y = windows.input(1, oy, ky), at_x = windows.input(2, ox, kx);
          if (input.frame.outside(0, plane.z) || input.frame.outside(1, at_y) || input.frame.outside(2, at_x)) continue;
          const T value = input.at(plane, at_y, at_x);
          if (any && !detail::exceeds(value, best)) continue;
          any = true, best = value, is_own = plane.z == own.z && at_y == y && at_x == x;
        }
    }
    return is_own;
  }
};

}  // namespace halogen::kernels
