// Sums over points that are gathered from finished rows: moments, from which the tables of an affine are made, or the
// two sums of its vjp. Within a row moments are in double, relative to the row's first value. Rows, tiles and ranks are
// merged in a fixed order.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// Moments: count, mean, sum of squared deviations. Sums of an affine: sum of g, sum of g * (x - mean), unused.
struct RowSums {
  double first = 0, second = 0, third = 0;

  /// Moments of `count` values from the sums of their differences from `about` and of the squares of these.
  HALOGEN_FUNCTION static RowSums moments(index_t count, double about, double sum, double squares) {
    const double points = static_cast<double>(count);
    return {points, about + sum / points, squares - sum * (sum / points)};
  }

  /// Moments of two disjoint sets from the moments of each: Chan, Golub, LeVeque (1983).
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

/// The part of sum_two that fills whole vectors. Returns how many points it has done.
template <class T, class F>
index_t sum_two_in_lanes(index_t count, F f, double& first, double& second) {
  constexpr int together = summed_lanes<T>, vectors = 2 * lanes<T> / together;
  using D = Vector<double, together>;
  D a[vectors] = {}, b[vectors] = {};
  index_t i = 0;
  for (; i + 2 * lanes<T> <= count; i += 2 * lanes<T>) HALOGEN_UNROLL
  for (int k = 0; k < vectors; ++k) f.template operator()<Vector<T, together>>(i + k * together, a[k], b[k]);
  for (int k = 1; k < vectors; ++k) a[0] += a[k], b[0] += b[k];
  for (int l = 0; l < together; ++l) first += a[0][l], second += b[0][l];
  return i;
}

/// Two sums over i in [0, count) in double, by vectors on the host. f.template operator()<T>(i, first, second) adds the
/// two terms of point i. If V is a vector of T, f.template operator()<V>(...) adds the terms of as many points from i
/// on to vectors of doubles with as many lanes.
template <class T, class F>
HALOGEN_FUNCTION void sum_two(index_t count, F f, double& first, double& second) {
  index_t i = 0;
  KOKKOS_IF_ON_HOST((i = sum_two_in_lanes<T>(count, f, first, second);))
  for (; i < count; ++i) f.template operator()<T>(i, first, second);
}

/// Host: the sum of a row, in double.
template <class T>
double sum_of_row(const T* row, index_t count) {
  double sum = 0, unused = 0;
  sum_two<T>(
      count,
      [row]<class V, class D>(index_t i, D& total, D&) {
        if constexpr (std::is_same_v<V, T>)
          total += static_cast<double>(row[i]);
        else
          total += widen<T>(load<V>(row + i));
      },
      sum, unused);
  return sum;
}

}  // namespace detail

/// Moments of lanes<T> channels, whose points come as vectors of channels, in double relative to each channel's first
/// point.
template <class T>
struct LaneMoments {
  double about[lanes<T>] = {}, first[lanes<T>] = {}, second[lanes<T>] = {};
  index_t count = 0;  ///< points of each channel

  RowSums of(int lane) const {
    return count == 0 ? RowSums{} : RowSums::moments(count, about[lane], first[lane], second[lane]);
  }
};

/// What a kernel does with each finished row of its output.
template <class S>
struct RowEpilogue {
  using T = compute_type<S>;
  enum class Kind { none, moments, affine_sums, mask } kind = Kind::none;
  RowSums* partial = nullptr;  ///< [tile][channel]
  int channels = 0;
  // affine_sums: the rows are the gradient of function(affine(value))
  TensorView<S> value;
  Affine<T> affine;
  const double* mean = nullptr;  ///< over (n, c)
  Nonlinearity function;
  TensorView<S> mask;  ///< if set, rows are multiplied by mask_function's derivative at it, before they are summed
  Nonlinearity mask_function;

  /// A point, or a vector of points, on host and device.
  template <class V, class From>
  HALOGEN_FUNCTION static V read(const From* from) {
    if constexpr (std::is_same_v<V, T>)
      return *from;
    else
      return load_ahead<V>(from);
  }
  template <class U, class V>
  HALOGEN_FUNCTION static auto in_double(V value) {
    if constexpr (std::is_same_v<V, U>)
      return static_cast<double>(value);
    else
      return widen<U>(value);
  }

  /// Adds row [x0, x0 + count) of channel c, as it is stored, to the tile's accumulator. Applies the mask to the row
  /// first.
  HALOGEN_FUNCTION void add_row(int n, int c, index_t y, index_t x0, index_t count, S* row,
                                RowSums& accumulator) const {
    if (count <= 0) return;
    if (mask.data != nullptr) {
      const S* m = mask.row(n, c, y) + (x0 - mask.x0);
      if (only_clips(mask_function))
        for (index_t i = 0; i < count; ++i) row[i] = T(m[i]) <= T(0) ? S(T(0)) : row[i];
      else
        pass_back_row<T>(mask_function, row, m, {}, count, row);
    }
    if (kind == Kind::mask) return;
    double first = 0, second = 0;
    if (kind == Kind::moments) {
      const double about = static_cast<double>(T(row[0]));
      detail::sum_two<T>(
          count,
          [row, about]<class V, class D>(index_t i, D& sum, D& squares) {
            const D d = in_double<T>(read<V>(row + i)) - about;
            sum += d;
            squares += d * d;
          },
          first, second);
      accumulator.merge_moments(RowSums::moments(count, about, first, second));
    } else {
      const S* x = value.row(n, c, y) + (x0 - value.x0);
      const int index = value.sample_of(n) * channels + c;
      const double center = mean[index];
      const ScaleAndShift<T> of = affine.at(index);
      if (only_clips(function)) {
        sum_products(row, x, count, center, of, static_cast<bool>(function), first, second);
      } else {
        constexpr index_t most = 512;
        T passed[most];
        for (index_t begin = 0; begin < count; begin += most) {
          const index_t size = count - begin < most ? count - begin : most;
          pass_back_row<T>(function, row + begin, x + begin, of, size, passed);
          sum_products(passed, x + begin, size, center, of, false, first, second);
        }
      }
      accumulator.add({first, second, 0});
    }
  }

 private:
  /// Adds the sums of g and of g (x - center). With `clips`, g counts as 0 where the affine's result is not positive.
  template <class G>
  HALOGEN_FUNCTION static void sum_products(const G* row, const S* x, index_t count, double center,
                                            const ScaleAndShift<T>& of, bool clips, double& first, double& second) {
    detail::sum_two<T>(
        count,
        [=]<class V, class D>(index_t i, D& sum, D& product) {
          const V v = read<V>(x + i);
          V g = read<V>(row + i);
          if (clips) g = of(v) <= T(0) ? V{} : g;
          sum += in_double<T>(g);
          product += in_double<T>(g) * (in_double<T>(v) - center);
        },
        first, second);
  }
};

}  // namespace halogen::kernels
