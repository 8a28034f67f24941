// Each channel of a point divided by a power of the squares of the channels beside it, and the adjoint.
// Accumulation: sums over the channels of a window in their order, in the value type.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/device_tile_output.hpp"

namespace halogen::kernels {

/// base[c] = k + scale * the sum of x^2 over the window of c: `size` channels from c - size / 2 on, those that exist.
template <class T>
struct ResponseWindows {
  int channels = 0, size = 0;
  T scale = 0, beta = 0, k = 0;  ///< scale: alpha / size

  struct Channels {
    int begin, end;
  };
  KOKKOS_FUNCTION Channels of(int c) const { return cut(c - size / 2); }
  /// The channels whose windows contain c.
  KOKKOS_FUNCTION Channels holding(int c) const { return cut(c + size / 2 - size + 1); }
  /// What x and gradients of channel c are divided by.
  KOKKOS_FUNCTION T divisor(T base) const { return Kokkos::pow(base, beta); }
  /// The gradient of x[c]. own: g[c] / divisor; sum: of (g / divisor) x / base over the channels that hold c. Both are
  /// 0 where all g are, even if x is NaN.
  KOKKOS_FUNCTION T gradient(T own, T x, T sum) const { return sum == T(0) ? own : own - 2 * scale * beta * x * sum; }

 private:
  KOKKOS_FUNCTION Channels cut(int begin) const {
    return {begin < 0 ? 0 : begin, begin + size < channels ? begin + size : channels};
  }
};

/// y[c] = x[c] / base[c]^beta.
template <class S>
struct LocalResponsePoint {
  using T = compute_type<S>;
  ValueReader<S> input;
  ResponseWindows<T> windows;
  int channels = 0, first = 0;  ///< first: of the channels that are computed

  static constexpr int operands = 2;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T* squares) const {
    input.load_row(n, c, y, x0, count, to);
    for (index_t i = 0; i < count; ++i) squares[i] = to[i] * to[i];
  }

  /// Host: computes columns [0, count) of rows that are `pitch` apart, in place.
  void compute(T* x, T* squares, T* sum, index_t pitch, index_t count) const {
    for (int c = 0; c < channels; ++c) {
      std::fill_n(sum, count, T(0));
      const auto [begin, end] = windows.of(c);
      for (int j = begin; j < end; ++j)
        for (index_t i = 0; i < count; ++i) sum[i] += squares[j * pitch + i];
      for (index_t i = 0; i < count; ++i) x[c * pitch + i] /= windows.divisor(windows.k + windows.scale * sum[i]);
    }
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    T sum = 0;
    const auto [begin, end] = windows.of(first + o);
    for (int j = begin; j < end; ++j) {
      const T value = input.at(n, j, y, x);
      sum += value * value;
    }
    return input.at(n, first + o, y, x) / windows.divisor(windows.k + windows.scale * sum);
  }
};

/// dx[c] = g[c] / base[c]^beta - 2 scale beta x[c] * the sum of g x / base^(beta + 1) over the channels that hold c,
/// for channels from `first` on.
template <class S>
struct LocalResponseBackwardPoint {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  ValueReader<S> input;
  ResponseWindows<T> windows;
  int channels = 0, first = 0;

  static constexpr int operands = 3;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T* second) const {
    gradient.load_row(n, c, y, x0, count, to);
    input.load_row(n, c, y, x0, count, second);
  }

  /// Host: g becomes dx; the shares of the channels come after x.
  void compute(T* g, T* x, T* sum, index_t pitch, index_t count) const {
    T* shares = x + channels * pitch;
    for (int c = 0; c < channels; ++c) {
      std::fill_n(sum, count, T(0));
      const auto [begin, end] = windows.of(c);
      for (int j = begin; j < end; ++j)
        for (index_t i = 0; i < count; ++i) sum[i] += x[j * pitch + i] * x[j * pitch + i];
      for (index_t i = 0; i < count; ++i) {
        const Share share(windows, g[c * pitch + i], x[c * pitch + i], sum[i]);
        g[c * pitch + i] = share.own;
        shares[c * pitch + i] = share.of_others;
      }
    }
    for (int c = 0; c < channels; ++c) {
      std::fill_n(sum, count, T(0));
      const auto [begin, end] = windows.holding(c);
      for (int j = begin; j < end; ++j)
        for (index_t i = 0; i < count; ++i) sum[i] += shares[j * pitch + i];
      for (index_t i = 0; i < count; ++i)
        g[c * pitch + i] = windows.gradient(g[c * pitch + i], x[c * pitch + i], sum[i]);
    }
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    const int c = first + o;
    T own = 0, sum = 0;
    const auto [begin, end] = windows.holding(c);
    for (int j = begin; j < end; ++j) {
      T squares = 0;
      const auto [from, to] = windows.of(j);
      for (int i = from; i < to; ++i) {
        const T value = input.at(n, i, y, x);
        squares += value * value;
      }
      const Share share(windows, gradient.at(n, j, y, x), input.at(n, j, y, x), squares);
      if (j == c) own = share.own;
      sum += share.of_others;
    }
    return windows.gradient(own, input.at(n, c, y, x), sum);
  }

 private:
  /// g / base^beta, and that times x / base.
  struct Share {
    T own = 0, of_others = 0;
    KOKKOS_FUNCTION Share(const ResponseWindows<T>& windows, T g, T x, T squares) {
      if (g == T(0)) return;
      const T base = windows.k + windows.scale * squares;
      own = g / windows.divisor(base);
      of_others = own * x / base;
    }
  };
};

}  // namespace halogen::kernels
