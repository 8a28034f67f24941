// Softmax over the channels of each point, and its adjoint.
// Accumulation: sums over channels in their order, in the value type; the largest channel is subtracted first.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/device_tile_output.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace halogen::kernels {

/// y[c] = exp(x[c] - max) / sum of exp(x - max).
template <class S>
struct SoftmaxPoint {
  using T = compute_type<S>;
  ValueReader<S> input;
  int channels = 0, first = 0;  ///< first: of the channels that are computed

  static constexpr int operands = 1;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T*) const {
    input.load_row(n, c, y, x0, count, to);
  }

  /// Host: computes columns [0, count) of rows that are `pitch` apart, in place.
  void compute(T* x, T*, T* sum, index_t pitch, index_t count) const {
    T* largest = sum + pitch;
    std::copy_n(x, count, largest);
    for (int c = 1; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], x[c * pitch + i]);
    std::fill_n(sum, count, T(0));
    for (int c = 0; c < channels; ++c)
      for_each_vector<T>(count, [&]<class V>(index_t i) {
        const V one = exponential<T>(kernels::load<V>(x + c * pitch + i) - kernels::load<V>(largest + i));
        kernels::store(x + c * pitch + i, one);
        kernels::store(sum + i, kernels::load<V>(sum + i) + one);
      });
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) x[c * pitch + i] /= sum[i];
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    T largest = input.at(n, 0, y, x), sum = 0;
    for (int c = 1; c < channels; ++c) {
      const T value = input.at(n, c, y, x);
      largest = largest < value ? value : largest;
    }
    for (int c = 0; c < channels; ++c) sum += Kokkos::exp(input.at(n, c, y, x) - largest);
    return Kokkos::exp(input.at(n, first + o, y, x) - largest) / sum;
  }
};

/// dx[c] = y[c] (g[c] - sum of g y), for channels from `first` on. It is 0 at a point whose g are all 0, even if y is
/// NaN.
template <class S>
struct SoftmaxBackwardPoint {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  TensorView<S> result;  ///< y
  int channels = 0, first = 0;

  static constexpr int operands = 2;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T* second) const {
    gradient.load_row(n, c, y, x0, count, to);
    detail::copy_row(&result.at(n, c, y, x0), count, second);
  }

  void compute(T* g, T* y, T* sum, index_t pitch, index_t count) const {
    std::fill_n(sum, count, T(0));
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) sum[i] += scaled(g[c * pitch + i], y[c * pitch + i]);
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) g[c * pitch + i] = scaled(g[c * pitch + i] - sum[i], y[c * pitch + i]);
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    T sum = 0;
    for (int c = 0; c < channels; ++c) sum += scaled(gradient.at(n, c, y, x), T(result.at(n, c, y, x)));
    return scaled(gradient.at(n, first + o, y, x) - sum, T(result.at(n, first + o, y, x)));
  }

 private:
  KOKKOS_FUNCTION static T scaled(T difference, T y) { return difference == T(0) ? difference : y * difference; }
};

}  // namespace halogen::kernels
