// Sums over pixels that leave with finished rows: moments for a norm, or the two sums of a norm's vjp.
// Within a row in double about the row's first value; rows, tiles and ranks are merged in a fixed order.
#pragma once

#include "halogen/kernels/views.hpp"

namespace halogen::kernels {

/// Moments: count, mean, sum of squared deviations. Norm sums: sum of g, sum of g * (x - mean), unused.
struct RowSums {
  double first = 0, second = 0, third = 0;

  /// Chan, Golub, LeVeque (1983): moments of two disjoint sets from theirs.
  HALOGEN_FUNCTION void merge_moments(const RowSums& other) {
    const double count = first + other.first;
    if (other.first == 0) return;
    const double difference = other.second - second;
    third += other.third + difference * difference * (first * (other.first / count));
    second += difference * (other.first / count);
    first = count;
  }

  HALOGEN_FUNCTION void add(const RowSums& other) {
    first += other.first;
    second += other.second;
  }
};

namespace detail {

/// Sums of f(i).first and f(i).second over i in [0, count) in double, in eight lanes on the host.
template <class F>
HALOGEN_FUNCTION inline void sum_two(index_t count, F f, double& first, double& second) {
  double a[8] = {}, b[8] = {};
  index_t i = 0;
  for (; i + 8 <= count; i += 8) HALOGEN_UNROLL
  for (int l = 0; l < 8; ++l) f(i + l, a[l], b[l]);
  for (; i < count; ++i) f(i, a[i & 7], b[i & 7]);
  for (int l = 0; l < 8; ++l) first += a[l], second += b[l];
}

}  // namespace detail

/// What a kernel does with each finished row of its output.
template <class T>
struct RowEpilogue {
  enum class Kind { none, moments, norm_sums } kind = Kind::none;
  RowSums* partial = nullptr;  ///< [tile][channel]
  int channels = 0;
  // norm_sums: the rows are the gradient of relu(norm(value))
  TensorView<T> value;
  Affine<T> affine;
  const double* mean = nullptr;  ///< over (n, c)
  bool relu = false;

  /// Adds row [x0, x0 + count) of channel c to the tile's accumulator.
  HALOGEN_FUNCTION void add_row(int n, int c, index_t y, index_t x0, index_t count, const T* row,
                                RowSums& accumulator) const {
    if (count <= 0) return;
    double first = 0, second = 0;
    if (kind == Kind::moments) {
      const double about = static_cast<double>(row[0]);
      detail::sum_two(
          count,
          [&](index_t i, double& sum, double& squares) {
            const double d = static_cast<double>(row[i]) - about;
            sum += d;
            squares += d * d;
          },
          first, second);
      const double points = static_cast<double>(count);
      accumulator.merge_moments({points, about + first / points, second - first * (first / points)});
    } else {
      const T* x = value.row(n, c, y) + (x0 - value.x0);
      const int index = n * channels + c;
      const double center = mean[index];
      const T a = affine.scale[index], b = affine.shift[index];
      const bool clips = relu;
      detail::sum_two(
          count,
          [&](index_t i, double& sum, double& product) {
            const double g = clips && !(x[i] * a + b > T(0)) ? 0.0 : static_cast<double>(row[i]);
            sum += g;
            product += g * (static_cast<double>(x[i]) - center);
          },
          first, second);
      accumulator.add({first, second, 0});
    }
  }
};

}  // namespace halogen::kernels
