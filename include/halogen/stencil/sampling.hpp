// One dimension of a resampling from `in` to `out` points as PyTorch defines it: which inputs an output reads, and by
// which weight.
#pragma once

#include "halogen/stencil/window.hpp"

namespace halogen {

/// adaptive: the mean over [floor(o in / out), ceil((o + 1) in / out)), as torch.nn.AdaptiveAvgPool2d. The others as
/// torch.nn.functional.interpolate: output o stands at (o + 1/2) in / out - 1/2 among the inputs, with `corners` at
/// o (in - 1) / (out - 1). What a tap beyond the field would read is the point at its end; or `periodic`, and of linear
/// and cubic taps alone, the field goes on there: output o + out reads in points further. With `antialiases`, where
/// there are fewer outputs than inputs, the taps of linear and cubic spread over in / out times as many inputs. By a
/// factor up / down that does not divide the extent, its inverse stands for in / out, where there are neither corners
/// nor a periodic end.
struct Sampled {
  index_t in = 1, out = 1;
  index_t from = 1, to = 1;  ///< inputs so far apart are outputs so far apart
  Sampling mode = Sampling::none;
  bool corners = false, antialiases = false, periodic = false;

  Sampled() = default;
  constexpr Sampled(const Window& window, index_t inputs, index_t outputs)
      : in(inputs),
        out(outputs),
        from(by_factor(window) ? window.down : inputs),
        to(by_factor(window) ? window.up : outputs),
        mode(window.sampling),
        corners(window.corners),
        antialiases(window.antialiases && from > to),
        periodic(window.periodic) {}

  /// The inputs that output o reads, those at weight 0 too.
  HALOGEN_FUNCTION constexpr Interval reads(index_t o) const {
    if (mode == Sampling::none) return {o, o + 1};
    if (mode == Sampling::adaptive) return {o * in / out, ceil_div((o + 1) * in, out)};
    if (mode == Sampling::nearest) return point(floor_div(o * from, to));
    if (mode == Sampling::nearest_exact) return point(floor_div((2 * o + 1) * from, 2 * to));
    if (antialiases) {  // support from / to, or twice that, around (o + 1/2) from / to
      const index_t wide = mode == Sampling::cubic ? 4 : 2, center = (2 * o + 1) * from;
      const Interval all{floor_div(center - wide * from + to, 2 * to), floor_div(center + wide * from + to, 2 * to)};
      return periodic ? all : intersect(all, {0, in});
    }
    const index_t first = position(o).first - (mode == Sampling::cubic);
    const index_t last = first + (mode == Sampling::cubic ? 3 : 1);
    return {clamped(first), clamped(last) + 1};
  }

  /// Calls f(input, weight) for each of them in their order.
  template <class T, class F>
  HALOGEN_FUNCTION void for_each(index_t o, F f) const {
    const Interval taps = reads(o);
    T sum = 0;
    if (antialiases)
      for (index_t i = taps.begin; i < taps.end; ++i) sum += spread<T>(o, i);
    for (index_t i = taps.begin; i < taps.end; ++i) f(i, antialiases ? spread<T>(o, i) / sum : weight<T>(o, i, taps));
  }
  template <class T>
  HALOGEN_FUNCTION T weight(index_t o, index_t i) const {
    T found = 0;
    for_each<T>(o, [&](index_t at, T w) { found = at == i ? w : found; });
    return found;
  }

  HALOGEN_FUNCTION constexpr Interval input_of(const Interval& outputs) const {
    if (outputs.empty()) return {};
    return {reads(outputs.begin).begin, reads(outputs.end - 1).end};
  }
  /// Outputs that read any of the inputs: both ends of reads() grow with o.
  HALOGEN_FUNCTION constexpr Interval output_of(const Interval& inputs) const {
    if (inputs.empty()) return {};
    const index_t begin = first([&](index_t o) { return reads(o).end > inputs.begin; });
    return {begin, first([&](index_t o) { return reads(o).begin >= inputs.end; })};
  }

 private:
  static constexpr bool by_factor(const Window& window) {
    return window.up > 0 && !window.corners && !window.periodic && window.sampling != Sampling::adaptive;
  }
  struct Position {
    index_t first, part, of;  ///< between inputs first and first + 1, part / of of the way
  };
  HALOGEN_FUNCTION constexpr Position position(index_t o) const {
    index_t at = corners ? o * (in - 1) : (2 * o + 1) * from - to;
    const index_t of = corners ? (out > 1 ? out - 1 : 1) : 2 * to;
    if (at < 0 && mode == Sampling::linear && !periodic) at = 0;
    const index_t first = floor_div(at, of);
    return {first, at - first * of, of};
  }
  HALOGEN_FUNCTION constexpr index_t beyond() const { return out * (1 + 8 / in) + 8; }
  HALOGEN_FUNCTION static constexpr Interval point(index_t i) { return {i, i + 1}; }
  HALOGEN_FUNCTION constexpr index_t clamped(index_t i) const { return periodic ? i : i < 0 ? 0 : i < in ? i : in - 1; }

  /// The first o in [0, out), or as far beyond as taps reach where it is periodic, for which a predicate holds that
  /// then holds on; the end if none.
  template <class Predicate>
  HALOGEN_FUNCTION constexpr index_t first(Predicate holds) const {
    index_t low = periodic ? -beyond() : 0, high = periodic ? out + beyond() : out;
    while (low < high) {
      const index_t middle = low + (high - low) / 2;
      if (holds(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  template <class T>
  HALOGEN_FUNCTION T weight(index_t o, index_t i, const Interval& taps) const {
    if (mode == Sampling::adaptive) return T(1) / static_cast<T>(taps.size());
    if (mode != Sampling::linear && mode != Sampling::cubic) return T(1);
    const Position p = position(o);
    const T part = static_cast<T>(p.part) / static_cast<T>(p.of);
    T sum = 0;  // of all taps that the field's ends hold together
    const int before = mode == Sampling::cubic ? 1 : 0, count = mode == Sampling::cubic ? 4 : 2;
    for (int k = 0; k < count; ++k)
      if (clamped(p.first - before + k) == i) sum += tap(static_cast<T>(k - before) - part, T(-0.75));
    return sum;
  }
  /// Not yet divided by the sum over all of an output.
  template <class T>
  HALOGEN_FUNCTION T spread(index_t o, index_t i) const {
    return tap(static_cast<T>((2 * i + 1) * to - (2 * o + 1) * from) / static_cast<T>(2 * from), T(-0.5));
  }
  /// The weight of an input that lies `x` away: a triangle, or Keys' cubic (1981) of parameter a.
  template <class T>
  HALOGEN_FUNCTION T tap(T x, T a) const {
    if (x < 0) x = -x;
    if (mode == Sampling::linear) return x < 1 ? 1 - x : T(0);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : T(0);
  }
};

}  // namespace halogen
