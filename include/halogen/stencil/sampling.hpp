// One dimension of a resampling from `in` to `out` points as PyTorch defines it: which inputs an output reads, and by
// which weight.
#pragma once

#include "halogen/stencil/window.hpp"

namespace halogen {

/// adaptive: the mean over [floor(o in / out), ceil((o + 1) in / out)), as torch.nn.AdaptiveAvgPool2d. The others as
/// torch.nn.functional.interpolate: output o stands at (o + 1/2) in / out - 1/2 among the inputs, with `corners` at
/// o (in - 1) / (out - 1). What a tap beyond the field would read is the point at its end; or, of linear and cubic taps
/// alone, as `beyond` says, its mirror image or nothing (`value`, which outside() weighs); or, `periodic`, the field
/// goes on there: output o + out reads in points further. With `antialiases`, where
/// there are fewer outputs than inputs, the taps of linear and cubic spread over in / out times as many inputs. By a
/// factor up / down that does not divide the extent, its inverse stands for in / out, where there are neither corners
/// nor a periodic end.
struct SampledWindow {
  index_t in = 1, out = 1;
  index_t from = 1, to = 1;  ///< inputs so far apart are outputs so far apart
  Sampling mode = Sampling::none;
  bool corners = false, antialiases = false, periodic = false;
  Edge beyond = Edge::replicate;
  double value = 0;

  SampledWindow() = default;
  bool operator==(const SampledWindow&) const = default;
  constexpr SampledWindow(const Window& window, index_t inputs, index_t outputs)
      : in(inputs),
        out(outputs),
        from(by_factor(window) ? window.down : inputs),
        to(by_factor(window) ? window.up : outputs),
        mode(window.sampling),
        corners(window.corners),
        antialiases(window.antialiases && from > to),
        periodic(window.periodic),
        beyond(window.beyond),
        value(window.value) {}

  /// The inputs that output o reads, those at weight 0 too.
  HALOGEN_FUNCTION constexpr Interval reads(index_t o) const {
    if (mode == Sampling::none) return {o, o + 1};
    if (mode == Sampling::adaptive) return {o * in / out, ceil_div((o + 1) * in, out)};
    if (mode == Sampling::nearest) return point(floor_div(o * from, to));
    if (mode == Sampling::nearest_exact) return point(floor_div((2 * o + 1) * from, 2 * to));
    const Interval all = taps(o);
    if (periodic || (all.begin >= 0 && all.end <= in)) return all;
    if (beyond == Edge::zero) return intersect(all, {0, in});
    Interval read{in, 0};
    for (index_t i = all.begin; i < all.end; ++i)
      read = {std::min(read.begin, seen(i)), std::max(read.end, seen(i) + 1)};
    return read;
  }

  /// Calls f(input, weight) for each of them in their order.
  template <class T, class F>
  HALOGEN_FUNCTION void for_each(index_t o, F f) const {
    if (!reads_around(mode)) {
      const Interval read = reads(o);
      for (index_t i = read.begin; i < read.end; ++i)
        f(i, mode == Sampling::adaptive ? T(1) / static_cast<T>(read.size()) : T(1));
      return;
    }
    const Interval all = taps(o), read = reads(o);
    const Position p = position(o);
    const T whole = antialiases ? sum<T>(o, p, all) : T(1);
    const bool all_inside = all.begin == read.begin && all.end == read.end;
    for (index_t i = read.begin; i < read.end; ++i) {
      T found = all_inside ? share<T>(o, p, i) : T(0);  // else of all taps that the field's ends hold together
      for (index_t k = all.begin; !all_inside && k < all.end; ++k) found += seen(k) == i ? share<T>(o, p, k) : T(0);
      f(i, antialiases ? found / whole : found);
    }
  }
  /// The weight of all that output o would read beyond the ends, where nothing stands.
  template <class T>
  HALOGEN_FUNCTION T outside(index_t o) const {
    if (periodic || beyond != Edge::zero || !reads_around(mode)) return T(0);
    const Interval all = taps(o);
    const Position p = position(o);
    T found = 0;
    for (index_t i = all.begin; i < all.end; ++i) found += i < 0 || i >= in ? share<T>(o, p, i) : T(0);
    return antialiases ? found / sum<T>(o, p, all) : found;
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
    if (at < 0 && mode == Sampling::linear && !periodic && beyond == Edge::replicate) at = 0;
    const index_t first = floor_div(at, of);
    return {first, at - first * of, of};
  }
  HALOGEN_FUNCTION constexpr index_t overreach() const { return out * (1 + 8 / in) + 8; }
  HALOGEN_FUNCTION static constexpr Interval point(index_t i) { return {i, i + 1}; }
  HALOGEN_FUNCTION static constexpr bool reads_around(Sampling mode) {
    return mode == Sampling::linear || mode == Sampling::cubic;
  }
  /// Of linear and cubic ones, those beyond the ends too. Antialiased, what is replicated has no taps there.
  HALOGEN_FUNCTION constexpr Interval taps(index_t o) const {
    if (!antialiases) {
      const index_t first = position(o).first - (mode == Sampling::cubic);
      return {first, first + (mode == Sampling::cubic ? 4 : 2)};
    }
    // support from / to, or twice that, around (o + 1/2) from / to
    const index_t wide = mode == Sampling::cubic ? 4 : 2, center = (2 * o + 1) * from;
    const Interval all{floor_div(center - wide * from + to, 2 * to), floor_div(center + wide * from + to, 2 * to)};
    return periodic || beyond != Edge::replicate ? all : intersect(all, {0, in});
  }
  /// The input that a tap reads: none of them beyond an Edge::zero.
  HALOGEN_FUNCTION constexpr index_t seen(index_t i) const {
    if (periodic || beyond == Edge::zero || (i >= 0 && i < in)) return i;
    if (beyond == Edge::replicate) return i < 0 ? 0 : in - 1;
    const index_t period = in > 1 ? 2 * (in - 1) : 1, at = ((i % period) + period) % period;
    return at < in ? at : period - at;
  }

  /// The first o in [0, out), or as far beyond as taps reach where it is periodic, for which a predicate holds that
  /// then holds on; the end if none.
  template <class Predicate>
  HALOGEN_FUNCTION constexpr index_t first(Predicate holds) const {
    index_t low = periodic ? -overreach() : 0, high = periodic ? out + overreach() : out;
    while (low < high) {
      const index_t middle = low + (high - low) / 2;
      if (holds(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  /// The weight of one tap; antialiased, not yet divided by the sum of all.
  template <class T>
  HALOGEN_FUNCTION T share(index_t o, const Position& p, index_t i) const {
    if (antialiases)
      return tap(static_cast<T>((2 * i + 1) * to - (2 * o + 1) * from) / static_cast<T>(2 * from), T(-0.5));
    return tap(static_cast<T>(i - p.first) - static_cast<T>(p.part) / static_cast<T>(p.of), T(-0.75));
  }
  template <class T>
  HALOGEN_FUNCTION T sum(index_t o, const Position& p, const Interval& all) const {
    T found = 0;
    for (index_t i = all.begin; i < all.end; ++i) found += share<T>(o, p, i);
    return found;
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

using Sampled [[deprecated("it is called SampledWindow")]] = SampledWindow;

}  // namespace halogen
