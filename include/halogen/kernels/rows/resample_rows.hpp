// Linear resampling: rows whose points are between the points of a coarser row.
#pragma once

#include <algorithm>

#include "halogen/kernels/vector/shuffle.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::kernels::detail {

/// Where a point of a linear resampling is between the two points that it reads, as a fraction of their distance.
template <class T>
HALOGEN_FUNCTION T fraction(const Resample::Between& place, const Resample& map) {
  return static_cast<T>(place.part) / static_cast<T>(2 * map.to);
}

/// One multiplication and one addition, so that vectors and single points are rounded in the same way.
template <class T>
HALOGEN_FUNCTION T interpolate(T a, T b, T part) {
  return a + (b - a) * part;
}

/// The outputs of a linear resampling by an integer factor that repeat the same weights: each group of `factor` outputs
/// reads neighbouring points of the field. There are `steps` groups from `begin` on, all within [first, end).
struct WholeSteps {
  index_t factor = 1, begin = 0, steps = 0;

  WholeSteps(const Resample& map, index_t first, index_t end) : begin(first) {
    if (map.to % map.from != 0) return;
    factor = map.to / map.from;
    begin = ceil_div(std::max(first, factor), factor) * factor;
    steps = std::max<index_t>(0, (std::min(end, map.to - factor) - begin) / factor);
    if (steps == 0) begin = first;
  }
  index_t end() const { return begin + steps * factor; }
};

/// Points [begin, end) of a row that is between the points of `from`. The first value of `from` is point `first`.
template <class T>
inline void interpolate_row(const Resample& map, const T* from, index_t first, index_t begin, index_t end, T* out) {
  const WholeSteps whole(map, begin, end);
  const auto each = [&](index_t x, index_t x_end) {
    for (; x < x_end; ++x) {
      const Resample::Between place = map.between(x);
      out[x - begin] = interpolate(from[place.first - first], from[place.second - first], fraction<T>(place, map));
    }
  };
  each(begin, whole.begin);
  T* const to = out + (whole.begin - begin);
  index_t done = 0;  // in steps
  if (whole.factor == 2) {
    const T* a = from + (whole.begin / 2 - 1 - first);
    for (; done + lanes<T> <= whole.steps; done += lanes<T>) {
      const auto left = load<Vector<T>>(a + done), here = load<Vector<T>>(a + done + 1),
                 right = load<Vector<T>>(a + done + 2);
      store_pairs<T>(to + 2 * done, left + (here - left) * T(0.75), here + (right - here) * T(0.25));
    }
  }
  for (index_t phase = 0; phase < (whole.steps > done ? whole.factor : 0); ++phase) {
    const Resample::Between place = map.between(whole.begin + phase);
    const T part = fraction<T>(place, map);
    const T* a = from + (place.first - first);
    for (index_t i = done; i < whole.steps; ++i) to[i * whole.factor + phase] = interpolate(a[i], a[i + 1], part);
  }
  each(whole.end(), end);
}

}  // namespace halogen::kernels::detail
