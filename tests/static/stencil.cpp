// Laws of the halo algebra, of windows and of resampling, by brute force over small cases.
#include "halogen/stencil/boundary.hpp"
#include "halogen/stencil/halo.hpp"
#include "halogen/stencil/neighborhood.hpp"
#include "halogen/stencil/sampling.hpp"
#include "halogen/stencil/window.hpp"

namespace {

using namespace halogen;

static_assert(Boundary<Zero, Periodic>::periodic[0] == false && Boundary<Zero, Periodic>::periodic[1] == true);

// -- halos: hull is a join, chain a monoid that distributes over it
// -----------------------------------------------------
constexpr bool halo_laws() {
  constexpr int n = 4;
  const auto halo = [](int i) { return Halo{i % n - 1, i / n - 1}; };  // -1: not even the point itself
  for (int i = 0; i < n * n; ++i) {
    const Halo a = halo(i);
    if (hull(a, a) != a || chain(a, Halo{}) != a || chain(Halo{}, a) != a) return false;
    for (int j = 0; j < n * n; ++j) {
      const Halo b = halo(j);
      if (hull(a, b) != hull(b, a) || chain(a, b) != chain(b, a)) return false;
      if (hull(a, b).lo < a.lo || hull(a, b).hi < a.hi || (hull(a, b).lo != a.lo && hull(a, b).lo != b.lo))
        return false;
      for (int k = 0; k < n * n; ++k) {
        const Halo c = halo(k);
        if (hull(hull(a, b), c) != hull(a, hull(b, c)) || chain(chain(a, b), c) != chain(a, chain(b, c))) return false;
        if (chain(a, hull(b, c)) != hull(chain(a, b), chain(a, c))) return false;
      }
    }
  }
  return true;
}
static_assert(halo_laws());
static_assert(chain(Halo{1, 2}, Halo{3, 4}) == Halo{4, 6} && hull(Halo{1, 4}, Halo{3, 2}) == Halo{3, 4});

// -- windows ----------------------------------------------------------------------------------------------------------
/// Whether law(window) holds for every stride, dilation and padding.
template <class Law>
constexpr bool for_kernel(int kernel, Law law) {
  for (int stride = 1; stride <= 4; ++stride)
    for (int dilation = 1; dilation <= 3; ++dilation)
      for (int padding = 0; padding <= 2; ++padding)
        if (!law(Window{.kernel = kernel, .stride = stride, .dilation = dilation, .padding = padding})) return false;
  return true;
}

constexpr bool reads(const Window& w, index_t output, index_t input) {
  for (int k = 0; k < w.kernel; ++k)
    if (output * w.stride - w.padding + k * w.dilation == input) return true;
  return false;
}

constexpr bool inside(index_t i, const Interval& interval) { return interval.begin <= i && i < interval.end; }

/// input_of is the interval from the first tap to the last.
constexpr bool input_is_hull_of_taps(const Window& w) {
  for (index_t o = -3; o < 4; ++o) {
    Interval taps;
    for (index_t i = -20; i < 30; ++i)
      if (reads(w, o, i)) taps = hull(taps, {i, i + 1});
    if (w.input_of({o, o + 1}) != taps) return false;
    if (w.input_of({o, o + 3}) != hull(taps, w.input_of({o + 2, o + 3}))) return false;
  }
  return w.input_of({2, 2}).empty();
}
static_assert(for_kernel(1, input_is_hull_of_taps) && for_kernel(2, input_is_hull_of_taps));
static_assert(for_kernel(3, input_is_hull_of_taps));
static_assert(for_kernel(5, input_is_hull_of_taps));

/// output_of is its adjoint: o is in output_of(i) if and only if i is in input_of(o); so every reader is in it, and
/// with contiguous taps nobody else.
constexpr bool output_is_adjoint(const Window& w) {
  for (index_t i = -4; i < 5; ++i) {
    const Interval outputs = w.output_of({i, i + 1});
    for (index_t o = -9; o < 10; ++o) {
      if (inside(o, outputs) != inside(i, w.input_of({o, o + 1}))) return false;
      if (reads(w, o, i) && !inside(o, outputs)) return false;
      if (w.dilation == 1 && inside(o, outputs) != reads(w, o, i)) return false;
    }
  }
  return w.output_of({2, 2}).empty();
}
static_assert(for_kernel(1, output_is_adjoint));
static_assert(for_kernel(2, output_is_adjoint));
static_assert(for_kernel(3, output_is_adjoint));
static_assert(for_kernel(4, output_is_adjoint));
static_assert(for_kernel(5, output_is_adjoint));

/// Of an interval: what any of its inputs has, and nothing beyond.
constexpr bool outputs_of_intervals(const Window& w) {
  for (index_t begin = -3; begin < 4; ++begin)
    for (index_t size = 1; size < 8; ++size) {
      Interval all;
      for (index_t i = begin; i < begin + size; ++i) all = hull(all, w.output_of({i, i + 1}));
      const Interval together = w.output_of({begin, begin + size});
      if (all.empty() ? !together.empty() : together != all) return false;
    }
  return true;
}
static_assert(for_kernel(1, outputs_of_intervals) && for_kernel(2, outputs_of_intervals));
static_assert(for_kernel(3, outputs_of_intervals) && for_kernel(4, outputs_of_intervals));

/// PyTorch's extent: as many windows as fit the padded field.
constexpr bool extents_count_windows(const Window& w) {
  for (index_t input = 1; input < 14; ++input) {
    index_t fit = 0;
    while (w.input_of({fit, fit + 1}).end <= input + w.padding) ++fit;
    if (w.output_extent(input) != fit) return false;
  }
  return true;
}
static_assert(for_kernel(1, extents_count_windows) && for_kernel(2, extents_count_windows));
static_assert(for_kernel(3, extents_count_windows) && for_kernel(5, extents_count_windows));

/// ceil_mode, by PyTorch's rule: one more window as long as the last has not reached the end of the padding, if it
/// begins in the field or before it.
constexpr bool ceil_extents_count_windows(Window w) {
  if (2 * w.padding > w.kernel) return true;  // pools refuse it
  w.ceil = true;
  for (index_t input = 1; input < 14; ++input) {
    if (input + w.padding_of_both() < w.span()) continue;
    index_t count = 1;
    const auto reads = [&](index_t o) { return w.input_of({o, o + 1}); };
    while (reads(count - 1).end < input + w.padding && reads(count).begin < input) ++count;
    if (w.output_extent(input) != count) return false;
  }
  return true;
}
static_assert(for_kernel(1, ceil_extents_count_windows) && for_kernel(2, ceil_extents_count_windows));
static_assert(for_kernel(3, ceil_extents_count_windows) && for_kernel(4, ceil_extents_count_windows));
// a third window would begin at point 5 of 5, where the padding at the end begins: torch.nn.MaxPool1d makes two
static_assert(Window{.kernel = 2, .stride = 3, .padding = 1, .ceil = true}.output_extent(5) == 2);
static_assert(Window{.kernel = 2, .stride = 3, .padding = 1, .ceil = true}.output_extent(6) == 3);

/// With the output cut at ceil(c / stride), halo() bounds what a piece [c, d) reads beside itself, and is reached.
constexpr bool halo_bounds(const Window& w) {
  index_t lo = -99, hi = -99;
  for (index_t c = 0; c < 6; ++c)
    for (index_t d = c + 1; d < c + 8; ++d) {
      const Interval outputs{ceil_div(c, w.stride), ceil_div(d, w.stride)};
      if (outputs.empty()) continue;
      const Interval inputs = w.input_of(outputs);
      lo = std::max(lo, c - inputs.begin);
      hi = std::max(hi, inputs.end - d);
    }
  return lo == w.halo().lo && hi == w.halo().hi;
}
static_assert(for_kernel(1, halo_bounds) && for_kernel(2, halo_bounds) && for_kernel(3, halo_bounds));
static_assert(for_kernel(4, halo_bounds) && for_kernel(5, halo_bounds));
static_assert(Window{.kernel = 3, .padding = 1}.halo() == Halo{1, 1});
static_assert(Window{.kernel = 2, .stride = 2}.halo() == Halo{0, 1});
static_assert(Window{.kernel = 3, .stride = 2, .dilation = 2, .padding = 1}.halo() == Halo{1, 3});

// -- neighbourhoods
// ---------------------------------------------------------------------------------------------------------------------
/// Whether law(neighbourhood) holds for extents that fit and every kind.
template <class Law>
constexpr bool for_neighborhoods(int kernel, int dilation, Law law) {
  for (int kind = 0; kind < 3; ++kind)
    for (const int more : {0, 1, 2, 3, kernel * dilation + 1}) {
      const int extent = kernel * dilation + more;
      const Window window{.kernel = kernel,
                          .dilation = dilation,
                          .periodic = kind == 1,
                          .ends = kind == 2 ? WindowEnds::causal : WindowEnds::shifted};
      if (!law(Neighborhood(window, extent))) return false;
    }
  return true;
}

constexpr bool holds(const SpacedPoints& points, index_t at, int dilation) {
  const index_t along = at - points.first;
  return along >= 0 && along % dilation == 0 && along / dilation < points.count;
}

/// A window holds its own point and the nearest of its residue, as many as the kernel has, inside the field; a causal
/// one what is not behind its own point.
constexpr bool windows_stay_inside(const Neighborhood& of) {
  for (index_t i = 0; i < of.extent; ++i) {
    const SpacedPoints keys = of.keys_of(i);
    const index_t last = keys.first + (keys.count - 1) * of.dilation;
    if (!holds(keys, i, of.dilation)) return false;
    if (of.causal ? last != i || keys.count != std::min<index_t>(of.kernel, i / of.dilation + 1)
                  : keys.count != of.kernel)
      return false;
    if (!of.periodic && (keys.first < 0 || last >= of.extent)) return false;
    const bool centred = keys.first == i - of.before() * of.dilation;
    const bool moved = keys.first < of.dilation || last >= of.extent - of.dilation;
    if (!centred && (of.periodic || !moved)) return false;
  }
  return true;
}

/// Who sees a key are those whose windows hold it.
constexpr bool queries_are_adjoint(const Neighborhood& of) {
  const index_t beyond = of.periodic ? index_t{of.kernel} * of.dilation : 0;
  for (index_t key = 0; key < of.extent; ++key)
    for (index_t i = -beyond; i < of.extent + beyond; ++i)
      if (holds(of.queries_of(key), i, of.dilation) != holds(of.keys_of(i), key, of.dilation)) return false;
  return true;
}

/// Of an interval: the hull of what its points have.
constexpr bool neighborhoods_of_intervals(const Neighborhood& of) {
  for (index_t begin = 0; begin < of.extent; ++begin) {
    Interval keys, queries;
    for (index_t end = begin + 1; end <= of.extent; ++end) {
      const SpacedPoints k = of.keys_of(end - 1), q = of.queries_of(end - 1);
      keys = hull(keys, Interval{k.first, k.first + (k.count - 1) * of.dilation + 1});
      queries = hull(queries, Interval{q.first, q.first + (q.count - 1) * of.dilation + 1});
      if (of.input_of({begin, end}) != keys || of.output_of({begin, end}) != queries) return false;
    }
  }
  return of.input_of({2, 2}).empty() && of.output_of({2, 2}).empty();
}
/// Of a divided field: each window holds its own point and at most `kernel` others, inside the field unless it goes on
/// at the other end, and its points share it.
constexpr bool windows_are_shared(const Neighborhood& of) {
  for (index_t i = 0; i < of.extent; ++i) {
    const SpacedPoints keys = of.keys_of(i);
    const index_t end = keys.first + keys.count;
    if (!holds(keys, i, 1) || keys.count > of.kernel) return false;
    if (of.periodic ? keys.count != of.kernel : keys.first < 0 || end > of.extent) return false;
    for (index_t j = keys.first; j < end; ++j)
      if (of.keys_of(j) != keys) return false;
    const bool begins = floor_mod(keys.first - of.shift, index_t{of.kernel}) == 0;
    if (!begins && keys.first != 0) return false;
  }
  return true;
}
constexpr bool divided_laws(int kernel) {
  for (int shift = 0; shift < kernel; ++shift)
    for (int extent = 1; extent <= 3 * kernel; ++extent)
      for (const bool periodic : {false, extent % kernel == 0}) {
        const Window window{.kernel = kernel, .periodic = periodic, .ends = WindowEnds::divided, .shift = shift};
        const Neighborhood of(window, extent);
        if (!windows_are_shared(of) || !queries_are_adjoint(of)) return false;
        if (extent > 2 && !neighborhoods_of_intervals(of)) return false;
      }
  return true;
}
static_assert(divided_laws(1) && divided_laws(2));
static_assert(divided_laws(3) && divided_laws(4));
static_assert(Neighborhood({.kernel = 4, .ends = WindowEnds::divided, .shift = 1}, 11).keys_of(0) ==
              SpacedPoints{0, 1});
static_assert(Neighborhood({.kernel = 4, .ends = WindowEnds::divided, .shift = 1}, 11).keys_of(10) ==
              SpacedPoints{9, 2});
static_assert(Neighborhood({.kernel = 4, .ends = WindowEnds::divided, .shift = 1}, 4).keys_of(0) == SpacedPoints{0, 4});
static_assert(Neighborhood({.kernel = 4, .periodic = true, .ends = WindowEnds::divided, .shift = 1}, 12).keys_of(11) ==
              SpacedPoints{9, 4});

template <int Kernel, int Dilation>
constexpr bool neighborhood_laws = for_neighborhoods(Kernel, Dilation, windows_stay_inside) &&
                                   for_neighborhoods(Kernel, Dilation, queries_are_adjoint) &&
                                   for_neighborhoods(Kernel, Dilation, neighborhoods_of_intervals);
static_assert(neighborhood_laws<1, 1> && neighborhood_laws<1, 2> && neighborhood_laws<2, 1>);
static_assert(neighborhood_laws<2, 2> && neighborhood_laws<2, 3>);
static_assert(neighborhood_laws<3, 1> && neighborhood_laws<3, 2>);
static_assert(neighborhood_laws<4, 1> && neighborhood_laws<5, 1>);

// -- 64 bits
// -----------------------------------------------------------------------------------------------------------
constexpr index_t far = index_t{1} << 33;
static_assert(Window{.kernel = 3, .padding = 1}.input_of({far, far + 1}) == Interval{far - 1, far + 2});
static_assert(Window{.kernel = 3, .stride = 2, .padding = 1}.input_of({far, far + 1}) ==
              Interval{2 * far - 1, 2 * far + 2});
static_assert(Window{.kernel = 2, .stride = 2}.output_of({far, far + 1}) == Interval{far / 2, far / 2 + 1});
static_assert(Window{.kernel = 2, .stride = 2}.output_extent(far + 1) == far / 2);
static_assert(Resample{far / 8, far / 4 + 1}.source(far / 4) == far / 8 - 1);  // products stay below 2^63

// -- nearest resampling
// --------------------------------------------------------------------------------------------------
/// floor(o n / m); output_of is the adjoint of source; periodic by itself.
constexpr bool resampling(index_t from, index_t to) {
  const Resample map{from, to};
  for (index_t o = -to; o < 2 * to; ++o) {
    if (map.source(o + to) != map.source(o) + from) return false;
    if (o >= 0 && o < to && map.source(o) != o * from / to) return false;
    if (map.input_of({o, o + 1}) != Interval{map.source(o), map.source(o) + 1}) return false;
    if (map.input_of({o, o + 3}) != Interval{map.source(o), map.source(o + 2) + 1}) return false;
  }
  for (index_t i = -from; i < 2 * from; ++i) {
    const Interval outputs = map.output_of({i, i + 1});
    for (index_t o = -2 * to; o < 3 * to; ++o)
      if (inside(o, outputs) != (map.source(o) == i)) return false;
    if (map.output_of({i, i + 2}).end != map.output_of({i + 1, i + 2}).end) return false;
  }
  return map.output_of({1, 1}).empty() && map.input_of({1, 1}).empty();
}
static_assert(resampling(22, 45));
static_assert(resampling(1, 1) && resampling(1, 7) && resampling(5, 11) && resampling(7, 15) && resampling(4, 8));
static_assert(resampling(11, 8) && resampling(9, 3) && resampling(5, 4));  // downward too

// Corners on corners: output o of several stands at o (in - 1) / (out - 1), that of a single one on the first input.
constexpr SampledWindow on_corners(index_t in, index_t out) {
  return {{.sampling = Sampling::linear, .corners = true}, in, out};
}
static_assert(on_corners(5, 1).reads(0) == Interval{0, 2} && on_corners(1, 1).reads(0) == Interval{0, 1});
static_assert(on_corners(5, 2).reads(1) == Interval{4, 5} && on_corners(5, 3).reads(1) == Interval{2, 4});

// -- pads
/// Each output reads one input, numpy's; images_of has the readers beside it; intervals are hulls.
constexpr bool pads(index_t from, index_t width, Edge edge) {
  const Resample map{from, from + 2 * width, false, edge};
  for (index_t o = 0; o < map.to; ++o) {
    const index_t i = o - width, last = from - 1;
    const index_t low = edge == Edge::reflect ? -i : 0, high = edge == Edge::reflect ? 2 * last - i : last;
    if (map.source(o) != (i < 0 ? low : i > last ? high : i)) return false;
    for (index_t end = o + 1; end <= map.to; ++end) {
      Interval read;
      for (index_t each = o; each < end; ++each) read = hull(read, {map.source(each), map.source(each) + 1});
      if (map.input_of({o, end}) != read) return false;
    }
  }
  for (index_t i = 0; i < from; ++i) {
    const Resample::Images images = map.images_of(i);
    for (index_t o = 0; o < map.to; ++o) {
      const int counted = (o == i + width) + inside(o, images.low) + inside(o, images.high);
      if (counted != (map.source(o) == i)) return false;
    }
    for (index_t end = i + 1; end <= from; ++end) {
      Interval readers;
      for (index_t o = 0; o < map.to; ++o)
        if (inside(map.source(o), {i, end})) readers = hull(readers, {o, o + 1});
      if (map.output_of({i, end}) != readers) return false;
    }
  }
  return map.input_of({1, 1}).empty() && map.output_of({1, 1}).empty();
}
static_assert(pads(2, 1, Edge::reflect) && pads(5, 1, Edge::reflect) && pads(5, 4, Edge::reflect));
static_assert(pads(7, 3, Edge::reflect) && pads(9, 2, Edge::reflect) && pads(4, 2, Edge::reflect));
static_assert(pads(1, 3, Edge::replicate) && pads(4, 2, Edge::replicate) && pads(7, 1, Edge::replicate));
static_assert(pads(2, 5, Edge::replicate) && pads(5, 1, Edge::replicate));

// -- linear resampling
/// Two inputs side by side around (2 o + 1) n / (2 m) - 1/2, clamped; output_of holds all readers of an input, and no
/// output more; periodic by itself.
constexpr bool between(index_t from, index_t to) {
  const Resample map{from, to, true};
  for (index_t o = -to; o < 2 * to; ++o) {
    const Resample::Between b = map.between(o), image = map.between(o + to);
    if (image.first != b.first + from || image.second != b.second + from || image.part != b.part) return false;
    if (map.input_of({o, o + 1}) != Interval{b.first, b.second + 1}) return false;
    if (map.input_of({o, o + 3}) != Interval{b.first, map.between(o + 2).second + 1}) return false;
    if (o < 0 || o >= to) continue;
    const index_t at = (2 * o + 1) * from - to;  // in 1 / (2 m)
    if (2 * to * b.first + b.part != (at < 0 ? 0 : at) || b.part >= 2 * to) return false;
    if (b.second != (b.first + 1 < from ? b.first + 1 : b.first)) return false;
  }
  for (index_t i = -from; i < 2 * from; ++i)
    for (index_t size = 1; size < 4; ++size) {
      const Interval outputs = map.output_of({i, i + size});
      for (index_t o = -2 * to; o < 3 * to; ++o) {
        const Resample::Between b = map.between(o);
        const bool reads = (b.first >= i && b.first < i + size) || (b.second >= i && b.second < i + size);
        if (inside(o, outputs) != reads) return false;
      }
    }
  return map.input_of({1, 1}).empty() && map.output_of({1, 1}).empty();
}
static_assert(between(1, 1) && between(1, 3) && between(2, 2) && between(3, 1) && between(5, 3) && between(7, 2));
static_assert(between(2, 4) && between(2, 5) && between(3, 7) && between(4, 5) && between(5, 10) && between(4, 12));

// -- transposed windows
/// The same readers with the roles exchanged; an extent that the window itself maps back to the input's.
constexpr bool transposed_is_adjoint(const Window& w) {
  Window t = w;
  t.transposed = true;
  for (index_t i = -6; i < 7; ++i)
    if (t.input_of({i, i + 2}) != w.output_of({i, i + 2}) || t.output_of({i, i + 2}) != w.input_of({i, i + 2}))
      return false;
  for (index_t input = 1; input < 9; ++input)
    for (t.output_padding = 0; t.output_padding < w.stride; ++t.output_padding) {
      const index_t output = t.output_extent(input);
      if (output != (input - 1) * w.stride - 2 * w.padding + w.span() + t.output_padding && output != 0) return false;
      if (output > 0 && w.output_extent(output) != input) return false;
    }
  return true;
}
static_assert(for_kernel(1, transposed_is_adjoint) && for_kernel(2, transposed_is_adjoint));
static_assert(for_kernel(3, transposed_is_adjoint) && for_kernel(5, transposed_is_adjoint));

}  // namespace
