// Host: sums of products of a gradient and a value. A point whose gradient is 0 does not count: it adds nothing, even
// if its value is infinite or NaN. Kernels multiply all points first. Only where a sum is not finite they take it again
// with these functions. Accumulation: `=`, in the value type.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels::detail {

/// Whether no value is infinite or NaN.
template <class T>
bool all_finite(const T* values, int count) {
  int others = 0;
  for (int i = 0; i < count; ++i) others |= !(std::abs(values[i]) <= std::numeric_limits<T>::max());
  return others == 0;
}

/// The sum of gradient * value over points that count.
template <class T>
T sum_counted(const T* gradient, const T* value, index_t count) {
  using V = Vector<T>;
  V sums{};
  index_t x = 0;
  for (; x + lanes<T> <= count; x += lanes<T>) {
    const V g = load<V>(gradient + x), product = g * load<V>(value + x);
    sums += g == T(0) ? V{} : product;
  }
  T sum = sum_of_lanes<T>(sums);
  for (; x < count; ++x)
    if (gradient[x] != T(0)) sum += gradient[x] * value[x];
  return sum;
}

/// taps[i][j] = the sum over the points (y, x) of rows and columns of points(y, x) * window(y - padding[0] + i, x -
/// padding[1] + j), each in one channel of a sample. One of the two reads a gradient.
template <int Window, class T, class Points, class Windowed>
[[gnu::noinline]] void sum_counted_taps(int sample, const Points& points, int channel, const Windowed& window,
                                        int windowed_channel, const Interval& rows, const Interval& columns,
                                        const index_t (&padding)[2], T* taps) {
  static_assert(reads_gradient<Points> != reads_gradient<Windowed>);
  T line[kernels::points_at_once], row[kernels::points_at_once + Window - 1];
  std::fill_n(taps, Window * Window, T(0));
  for (index_t y = rows.begin; y < rows.end; ++y)
    for (index_t x = columns.begin; x < columns.end; x += kernels::points_at_once) {
      const index_t count = std::min(kernels::points_at_once, columns.end - x);
      points.load_row(sample, channel, y, x, count, line);
      for (int i = 0; i < Window; ++i) {
        window.load_row(sample, windowed_channel, y - padding[0] + i, x - padding[1], count + Window - 1, row);
        for (int j = 0; j < Window; ++j)
          taps[i * Window + j] +=
              reads_gradient<Points> ? sum_counted(line, row + j, count) : sum_counted(row + j, line, count);
      }
    }
}

}  // namespace halogen::kernels::detail
