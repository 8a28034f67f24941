// Neighbourhoods, in one dimension: for each point of a field the points around it that it attends to, as many of each
// also where the field ends.
#pragma once

#include "halogen/stencil/window.hpp"

namespace halogen {

/// Points `first`, first + dilation, ..., as many as `count`.
struct SpacedPoints {
  index_t first = 0, count = 0;
  constexpr bool operator==(const SpacedPoints&) const = default;
};

/// The window of `kernel` points around each point, of those alone that are a multiple of `dilation` away. kernel / 2
/// of them lie before it, so that even kernels have one more there. Where the field ends, the window is moved until it
/// stays inside (Hassani et al. 2023); or it is `causal` and holds the point and those before it, fewer at the
/// beginning; or the field is `periodic` and the window goes on at the other end. Without one of the last two the field
/// has at least kernel * dilation points.
/// Or the field is `divided` into windows of `kernel` points, and all points of a window see each other. A window
/// begins at the point `shift`. The first and the last window end where the field ends. In a periodic field they are
/// one window, and the kernel divides the extent. A field that one window holds is not shifted (Liu et al. 2021).
struct Neighborhood {
  index_t extent = 1;
  int kernel = 1, dilation = 1, shift = 0;
  bool causal = false, periodic = false, divided = false;

  Neighborhood() = default;
  constexpr Neighborhood(const Window& window, index_t points)
      : extent(points),
        kernel(window.kernel),
        dilation(window.dilation),
        shift(window.ends == WindowEnds::divided && points > window.kernel ? window.shift : 0),
        causal(window.ends == WindowEnds::causal),
        periodic(window.periodic && (window.ends != WindowEnds::divided || shift > 0)),
        divided(window.ends == WindowEnds::divided) {}

  /// Points of a window before and after its own, where nothing moves it.
  HALOGEN_FUNCTION constexpr int before() const { return causal ? kernel - 1 : kernel / 2; }
  HALOGEN_FUNCTION constexpr int after() const { return kernel - 1 - before(); }

  /// The points that a query sees. Where the field is periodic, images of points too.
  HALOGEN_FUNCTION constexpr SpacedPoints keys_of(index_t query) const {
    if (divided) return window_with(query);
    if (periodic) return {query - index_t{before()} * dilation, kernel};
    const index_t residue = query % dilation, place = query / dilation;
    index_t first = place - before();
    if (!causal && first > places(residue) - kernel) first = places(residue) - kernel;
    if (first < 0) first = 0;
    return {residue + first * dilation, causal ? place + 1 - first : kernel};
  }

  /// The points that see a key: fewer than the kernel has at an end, more beside it.
  HALOGEN_FUNCTION constexpr SpacedPoints queries_of(index_t key) const {
    if (divided) return window_with(key);
    if (periodic) return {key - index_t{after()} * dilation, kernel};
    const index_t residue = key % dilation, place = key / dilation, all = places(residue);
    const index_t first = causal ? place : place < kernel ? 0 : place - after();
    index_t end = place + before() + 1;
    if (end > all || (!causal && place >= all - kernel)) end = all;
    return {residue + first * dilation, end - first};
  }

 private:
  /// Divided: the points of the window that holds this one.
  HALOGEN_FUNCTION constexpr SpacedPoints window_with(index_t point) const {
    index_t first = floor_div(point - shift, index_t{kernel}) * kernel + shift, end = first + kernel;
    if (!periodic && first < 0) first = 0;
    if (!periodic && end > extent) end = extent;
    return {first, end - first};
  }
  /// Points of the field with this residue.
  HALOGEN_FUNCTION constexpr index_t places(index_t residue) const {
    return (extent - residue + dilation - 1) / dilation;
  }

  template <class Of>
  constexpr Interval hull_of(const Interval& points, Of of) const {
    Interval all{};
    const index_t count = std::min<index_t>(dilation, points.size());
    for (index_t i = 0; i < count; ++i)
      for (const SpacedPoints seen : {of(points.begin + i), of(points.end - 1 - i)})
        all = hull(all, Interval{seen.first, seen.first + (seen.count - 1) * dilation + 1});
    return all;
  }

 public:
  /// The smallest interval that holds what the outputs see. What points of one residue see moves with them, so that the
  /// first and the last of each residue suffice.
  constexpr Interval input_of(const Interval& outputs) const {
    return hull_of(outputs, [&](index_t o) { return keys_of(o); });
  }
  /// The same of the outputs that see any of the inputs.
  constexpr Interval output_of(const Interval& inputs) const {
    return hull_of(inputs, [&](index_t i) { return queries_of(i); });
  }
};

}  // namespace halogen
