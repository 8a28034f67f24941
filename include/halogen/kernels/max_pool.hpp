// Max pooling and its adjoint, any kernel and stride, no padding. Ties: the first largest in row order, as PyTorch.
#pragma once

#include "halogen/kernels/row_kernels.hpp"

namespace halogen::kernels {
namespace detail {

/// Whether `value` takes the place of the largest so far; a NaN does, as in PyTorch. Of values or vectors of them.
template <class T>
HALOGEN_FUNCTION auto exceeds(T value, T largest) {
  return (value > largest) | (value != value);
}

}  // namespace detail

/// y[o] = max over the window.
template <class T>
struct MaxPoolRows {
  ValueReader<T> input;
  int kernel[2], stride[2];

  index_t inputs(index_t columns) const { return (columns - 1) * stride[1] + kernel[1]; }
  index_t scratch_size(index_t columns) const { return inputs(columns); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    for (int ky = 0; ky < kernel[0]; ++ky) {
      input.load_row(n, c, y * stride[0] + ky, x0 * stride[1], inputs(count), scratch);
      index_t i = kernel[1] == 2 && stride[1] == 2 ? row_of_pairs(scratch, count, ky == 0, out) : 0;
      for (; i < count; ++i) {
        const T* window = scratch + i * stride[1];
        T best = ky == 0 ? window[0] : out[i];
        for (int kx = 0; kx < kernel[1]; ++kx) best = detail::exceeds(window[kx], best) ? window[kx] : best;
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
    T best = input.at(n, c, y * stride[0], x * stride[1]);
    for (int ky = 0; ky < kernel[0]; ++ky)
      for (int kx = 0; kx < kernel[1]; ++kx) {
        const T value = input.at(n, c, y * stride[0] + ky, x * stride[1] + kx);
        best = detail::exceeds(value, best) ? value : best;
      }
    return best;
  }
};

/// The gradient of input point (y, x) from every window that holds it and whose first largest it is.
template <class T>
struct MaxPoolBackwardRows {
  ValueReader<T> input;
  GradientReader<T> gradient;  ///< of the pooled tensor
  int first = 0;               ///< first input channel of the source that is differentiated
  int kernel[2], stride[2];
  index_t outputs[2];  ///< extents of the pooled tensor

  /// Outputs whose window holds an input of [begin, end).
  KOKKOS_FUNCTION Interval windows(int d, index_t begin, index_t end) const {
    const index_t from = ceil_div(begin - kernel[d] + 1, stride[d]), to = floor_div(end - 1, stride[d]) + 1;
    return {from < 0 ? 0 : from, to > outputs[d] ? outputs[d] : to};
  }

  index_t scratch_size(index_t columns) const {
    const index_t outputs_of = columns / stride[1] + kernel[1] + 1;
    return outputs_of + ((outputs_of - 1) * stride[1] + kernel[1]) * kernel[0];
  }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    const Interval down = windows(0, y, y + 1), across = windows(1, x0, x0 + count);
    if (across.empty()) return;
    const index_t begin = across.begin * stride[1];
    const index_t width = (across.size() - 1) * stride[1] + kernel[1];
    T* g = scratch;
    T* rows = scratch + across.size();
    for (index_t o = down.begin; o < down.end; ++o) {
      gradient.load_row(n, first + c, o, across.begin, across.size(), g);
      for (int ky = 0; ky < kernel[0]; ++ky)
        input.load_row(n, first + c, o * stride[0] + ky, begin, width, rows + ky * width);
      const int own = static_cast<int>(y - o * stride[0]);
      const bool of_pairs = kernel[0] == 2 && kernel[1] == 2 && stride[1] == 2 && begin >= x0;
      index_t i = of_pairs ? row_of_pairs(rows, width, g, own, std::min(across.size(), (x0 + count - begin) / 2),
                                          out + (begin - x0))
                           : 0;
      for (; i < across.size(); ++i) {
        const index_t at = largest(rows + i * stride[1], width);
        if (at / kernel[1] != own) continue;
        const index_t x = begin + i * stride[1] + at % kernel[1] - x0;
        if (x >= 0 && x < count) out[x] += g[i];
      }
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const Interval down = windows(0, y, y + 1), across = windows(1, x, x + 1);
    T sum = 0;
    for (index_t oy = down.begin; oy < down.end; ++oy)
      for (index_t ox = across.begin; ox < across.end; ++ox) {
        T best = input.at(n, first + c, oy * stride[0], ox * stride[1]);
        index_t best_y = oy * stride[0], best_x = ox * stride[1];
        for (int ky = 0; ky < kernel[0]; ++ky)
          for (int kx = 0; kx < kernel[1]; ++kx) {
            const T value = input.at(n, first + c, oy * stride[0] + ky, ox * stride[1] + kx);
            if (detail::exceeds(value, best)) best = value, best_y = oy * stride[0] + ky, best_x = ox * stride[1] + kx;
          }
        if (best_y == y && best_x == x) sum += gradient.at(n, first + c, oy, ox);
      }
    return sum;
  }

 private:
  /// Row `own` of windows of 2 x 2 that do not overlap across, as many as fill vectors; returns how many.
  static index_t row_of_pairs(const T* rows, index_t pitch, const T* g, int own, index_t count, T* out) {
    using V = Vector<T>;
    index_t i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) {
      V value[4], best, at{};
      load_pairs<T>(rows + 2 * i, value[0], value[1]);
      load_pairs<T>(rows + pitch + 2 * i, value[2], value[3]);
      best = value[0];
      HALOGEN_UNROLL
      for (int k = 1; k < 4; ++k) {
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

  /// Position of the first largest point in the window, row-major.
  index_t largest(const T* window, index_t pitch) const {
    index_t at = 0;
    T best = window[0];
    for (int ky = 0; ky < kernel[0]; ++ky)
      for (int kx = 0; kx < kernel[1]; ++kx)
        if (detail::exceeds(window[ky * pitch + kx], best))
          best = window[ky * pitch + kx], at = index_t{ky} * kernel[1] + kx;
    return at;
  }
};

}  // namespace halogen::kernels
