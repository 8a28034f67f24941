// Adjoint of linear resampling. Each coarse point adds the fine points that read it, with their weights, row by row.
#pragma once

#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {

template <class S>
struct LinearBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> fine;
  Resample map[spatial_dimensions];  ///< rows and columns are resampled

  index_t scratch_size(index_t columns) const { return ceil_div((columns + 2) * map[2].to, map[2].from) + 2; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const Interval rows = map[1].output_of({y, y + 1}), columns = map[2].output_of({x0, x0 + count});
    std::fill_n(out, count, T(0));
    for (index_t fy = rows.begin; fy < rows.end; ++fy) {
      fine.load_row(n, c, fy, columns.begin, columns.size(), scratch);
      add_row(weight(1, fy, y), scratch, columns, x0, count, out);
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const Interval rows = map[1].output_of({y, y + 1}), columns = map[2].output_of({x, x + 1});
    T sum = 0;
    for (index_t fy = rows.begin; fy < rows.end; ++fy)
      for (index_t fx = columns.begin; fx < columns.end; ++fx)
        sum += weight(1, fy, y) * weight(2, fx, x) * fine.at(n, c, fy, fx);
    return sum;
  }

 private:
  /// The weight with which fine point `output` reads coarse point `input`.
  KOKKOS_FUNCTION T weight(int d, index_t output, index_t input) const {
    const Resample::Between place = map[d].between(output);
    const T part = detail::fraction<T>(place, map[d]);
    return (place.first == input ? T(1) - part : T(0)) + (place.second == input ? part : T(0));
  }

  void add_row(T down, const T* from, const Interval& columns, index_t x0, index_t count, T* out) const {
    const index_t factor = std::max<index_t>(1, map[2].to / map[2].from);
    const auto within = [&](index_t x) { return std::clamp(x * factor, columns.begin, columns.end); };
    const detail::WholeSteps whole(map[2], within(x0 + 1), within(x0 + count - 1));
    for (index_t x = columns.begin; x < whole.begin; ++x) add_point(down, from[x - columns.begin], x, x0, count, out);
    for (index_t phase = 0; phase < (whole.steps > 0 ? whole.factor : 0); ++phase) {
      const Resample::Between place = map[2].between(whole.begin + phase);
      const T part = detail::fraction<T>(place, map[2]), near = down * (T(1) - part), far = down * part;
      const T* g = from + (whole.begin + phase - columns.begin);
      T* to = out + (place.first - x0);
      for (index_t i = 0; i < whole.steps; ++i) to[i] += near * g[i * whole.factor];
      for (index_t i = 0; i < whole.steps; ++i) to[i + 1] += far * g[i * whole.factor];
    }
    for (index_t x = whole.end(); x < columns.end; ++x) add_point(down, from[x - columns.begin], x, x0, count, out);
  }

  void add_point(T down, T gradient, index_t fx, index_t x0, index_t count, T* out) const {
    const Resample::Between place = map[2].between(fx);
    const T part = detail::fraction<T>(place, map[2]);
    const index_t a = place.first - x0, b = place.second - x0;
    if (a >= 0 && a < count) out[a] += down * (T(1) - part) * gradient;
    if (b >= 0 && b < count) out[b] += down * part * gradient;
  }
};

}  // namespace halogen::kernels
