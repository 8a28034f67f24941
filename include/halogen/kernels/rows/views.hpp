// What kernels know of fields: pointers, strides, and the place of the first element in the global field.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/rows/frame.hpp"
#include "halogen/kernels/rows/nonlinearity.hpp"
#include "halogen/kernels/rows/resample_rows.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::kernels {

/// A stored tensor as a reader sees it: resampled, scaled and shifted, and put through a function, in this order. S is
/// the stored type. Here and in what follows, all computations are in compute_type<S>.
template <class S>
struct SourceView {
  TensorView<S> tensor;
  Affine<compute_type<S>> affine;
  Nonlinearity function;
  Resample map[spatial_dimensions];
  int channels = 0;
  bool resampled = false;
};

/// A network value: up to four sources side by side along the channels.
template <class S>
struct ValueReader {
  using T = compute_type<S>;
  using stored_type = S;
  SourceView<S> sources[4];
  int count = 0;
  Frame frame;
  DepthWindow depth;

  /// The number of the source that has channel c. c becomes its number in that source.
  HALOGEN_FUNCTION int find(int& c) const {
    if (c < sources[0].channels) return 0;
    c -= sources[0].channels;
    if (c < sources[1].channels) return 1;
    c -= sources[1].channels;
    if (c < sources[2].channels) return 2;
    c -= sources[2].channels;
    return 3;
  }

  /// Copies the members of that source that are used. An index known only at run time would make each device thread
  /// copy all of the kernel's arguments.
  KOKKOS_FORCEINLINE_FUNCTION SourceView<S> source_of(int& c) const {
    const int i = find(c);
    return i == 0 ? sources[0] : i == 1 ? sources[1] : i == 2 ? sources[2] : sources[3];
  }

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at(depth.input(n, c), y, x); }

  HALOGEN_FUNCTION T at(PlaneAt plane, index_t y, index_t x) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y) || frame.outside(2, x)) return T(0);
    const SourceView<S> s = source_of(plane.channel);
    if (!s.resampled) return seen(s, plane, y, x);
    plane.z = s.map[0].source(plane.z);
    if (!s.map[1].linear) return seen(s, plane, s.map[1].source(y), s.map[2].source(x));
    const Resample::Between v = s.map[1].between(y), h = s.map[2].between(x);
    const T down = detail::fraction<T>(v, s.map[1]), across = detail::fraction<T>(h, s.map[2]);
    const T a = detail::interpolate(seen(s, plane, v.first, h.first), seen(s, plane, v.second, h.first), down);
    const T b = detail::interpolate(seen(s, plane, v.first, h.second), seen(s, plane, v.second, h.second), down);
    return detail::interpolate(a, b, across);
  }

  /// Host: the address where load_row will begin to read, null if it reads nothing. There is one tensor.
  static constexpr int tensors = 1;
  const S* address(int, int n, int c, index_t y, index_t x) const {
    PlaneAt plane = depth.input(n, c);
    if (frame.outside(0, plane.z) || frame.outside(1, y)) return nullptr;
    const SourceView<S>& s = sources[find(plane.channel)];
    if (s.resampled) plane.z = s.map[0].source(plane.z), y = s.map[1].source(y), x = s.map[2].source(x);
    return s.tensor.row(plane, y) + (x - s.tensor.x0);
  }

  /// Host: the row's points [x0, x0 + count) in memory; null if they cannot be read as they are.
  const T* standing_row(PlaneAt plane, index_t y, index_t x0, index_t count_of_row) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y) || !frame.has_columns(x0, count_of_row)) return nullptr;
    const SourceView<S>& s = sources[find(plane.channel)];
    if (s.affine.scale != nullptr || s.function || s.resampled) return nullptr;
    if constexpr (std::is_same_v<S, T>)
      return s.tensor.row(plane, y) + (x0 - s.tensor.x0);
    else
      return nullptr;
  }

  /// Host: writes the row's points [x0, x0 + count) to out.
  void load_row(int n, int c, index_t y, index_t x0, index_t count_of_row, T* out) const {
    load_row(depth.input(n, c), y, x0, count_of_row, out);
  }

  void load_row(PlaneAt plane, index_t y, index_t x0, index_t count_of_row, T* out) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y)) return (void)std::memset(out, 0, count_of_row * sizeof(T));
    const SourceView<S>& s = sources[find(plane.channel)];
    if (s.resampled && s.map[1].linear)
      return detail::read_inside(frame, x0, count_of_row, out, [&](index_t begin, index_t size, T* to) {
        load_between(s, plane, y, begin, size, to);
      });
    if (s.resampled) plane.z = s.map[0].source(plane.z), y = s.map[1].source(y);
    const S* from = s.tensor.row(plane, y);
    detail::read_inside(frame, x0, count_of_row, out, [&](index_t begin, index_t size, T* to) {
      const int index = plane.sample * s.affine.channels + plane.channel;
      if (!s.resampled) return finish(s, index, from + (begin - s.tensor.x0), size, to);
      gather(s.map[2], from - s.tensor.x0, begin, size, to);
      finish(s, index, static_cast<const T*>(to), size, to);
    });
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static T seen(const SourceView<S>& s, const PlaneAt& plane, index_t y, index_t x) {
    const T value = s.tensor.at(plane, y, x);
    if (s.affine.scale == nullptr) return activated(value, s.function);
    const int index = plane.sample * s.affine.channels + plane.channel;
    return activated(s.affine.at(index)(value), s.function);
  }

  /// Interpolates between two rows as the reader sees them, then between points of the row; piece by piece in L1.
  static void load_between(const SourceView<S>& s, const PlaneAt& plane, index_t y, index_t x0, index_t count, T* out) {
    constexpr index_t most = 1024;  // points of a coarse row at once
    T rows[2][most];
    [[maybe_unused]] const bool plain = s.affine.scale == nullptr && !s.function;
    const Resample& map = s.map[2];
    const Resample::Between v = s.map[1].between(y);
    const T down = detail::fraction<T>(v, s.map[1]);
    const int index = plane.sample * s.affine.channels + plane.channel;
    const index_t piece = std::max<index_t>(1, (most - 3) * map.to / map.from);
    for (index_t begin = x0; begin < x0 + count; begin += piece) {
      const index_t end = std::min(begin + piece, x0 + count);
      const Interval source = map.input_of({begin, end});
      const index_t size = source.size(), skip = source.begin - s.tensor.x0;
      const S* stored[2] = {s.tensor.row(plane, v.first) + skip, s.tensor.row(plane, v.second) + skip};
      const T* between[2] = {rows[0], rows[1]};
      for (int r = 0; r < 2; ++r) {
        if constexpr (std::is_same_v<S, T>)
          if (plain) between[r] = stored[r];
        if (between[r] == rows[r]) finish(s, index, stored[r], size, rows[r]);
      }
      const S* ahead = s.tensor.row(plane, v.second + 1) + skip;  // rows are short: the hardware is late to prefetch
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        __builtin_prefetch(ahead + i);
        const V a = load<V>(between[0] + i), b = load<V>(between[1] + i);
        store<V>(rows[0] + i, a + (b - a) * down);
      });
      detail::interpolate_row(map, rows[0], source.begin, begin, end, out + (begin - x0));
    }
  }

  static void gather(const Resample& map, const S* from, index_t begin, index_t size, T* to) {
    if (map.from == map.to) return detail::copy_row(from + begin, size, to);
    if (map.pads()) return gather_padded(map, from, begin, size, to);
    if (map.from == 1) return (void)std::fill_n(to, size, static_cast<T>(from[0]));
    if (map.doubles()) return gather_twice(from, begin, size, to);
    index_t source = map.source(begin), rest = floor_mod(begin * map.from, map.to);
    for (index_t i = 0; i < size; ++i) {
      to[i] = from[source];
      for (rest += map.from; rest >= map.to; rest -= map.to) ++source;
    }
  }

  /// Copies the field's own points as a row, and images one by one.
  static void gather_padded(const Resample& map, const S* from, index_t begin, index_t size, T* to) {
    const Interval own = intersect({map.before(), map.before() + map.from}, {begin, begin + size});
    const index_t first = own.empty() ? begin + size : own.begin;
    for (index_t x = begin; x < first; ++x) to[x - begin] = from[map.source(x)];
    if (own.empty()) return;
    detail::copy_row(from + (own.begin - map.before()), own.size(), to + (own.begin - begin));
    for (index_t x = own.end; x < begin + size; ++x) to[x - begin] = from[map.source(x)];
  }

  /// Each point twice: to[i] = from[(begin + i) / 2].
  static void gather_twice(const S* from, index_t begin, index_t size, T* to) {
    index_t i = 0;
    if (begin % 2 != 0 && size > 0) to[i++] = from[floor_div(begin, 2)];
    const S* source = from + floor_div(begin + i, 2);
    for (; i + 2 * lanes<T> <= size; i += 2 * lanes<T>, source += lanes<T>) {
      const Vector<T> values = load<Vector<T>>(source);
      store_pairs<T>(to + i, values, values);
    }
    for (bool second = false; i < size; ++i, second = !second) {
      to[i] = *source;
      source += second;
    }
  }

  /// `from` has stored values, or the values that were gathered to `to`.
  template <class From>
  static void finish(const SourceView<S>& s, int index, const From* from, index_t size, T* to) {
    const bool clips = s.function.kind == Nonlinearity::Kind::relu;
    if (s.affine.scale != nullptr) {
      const ScaleAndShift<T> affine = s.affine.at(index);
      if (clips)
        for_each_vector<T>(size, [&]<class V>(index_t i) {
          const V value = affine(load_ahead<V>(from + i));
          store<V>(to + i, value < T(0) ? V{} : value);
        });
      else
        for_each_vector<T>(size, [&]<class V>(index_t i) { store<V>(to + i, affine(load_ahead<V>(from + i))); });
    } else if (clips) {
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        const V value = load_ahead<V>(from + i);
        store<V>(to + i, value < T(0) ? V{} : value);
      });
    } else if (static_cast<const void*>(from) != to) {
      detail::copy_row(from, size, to);
    }
    if (!only_clips(s.function)) activate_row(s.function, size, to);
  }
};

/// The gradient of a stored tensor, recomputed from the gradient of the activation that its readers saw. First through
/// the function, g' = f'(y) g, then through the affine, scale * g' + slope * (x - center) + offset.
template <class S>
struct GradientReader {
  using T = compute_type<S>;
  using stored_type = S;
  TensorView<S> gradient, value;
  Affine<T> affine;
  const T* slope = nullptr;  ///< over (n, c), null without an affine
  const T* offset = nullptr;
  Nonlinearity function;
  /// Point e of the reader is point e / stuffing, or 0 between two points. For strided windows.
  int stuffing[spatial_dimensions] = {1, 1, 1};
  Frame frame;  ///< extent of the gradient itself
  DepthWindow depth;

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at(depth.input(n, c), y, x); }

  HALOGEN_FUNCTION T at(PlaneAt plane, index_t y, index_t x) const {
    if (!unstuff(0, plane.z) || !unstuff(1, y) || !unstuff(2, x)) return T(0);
    const T g = gradient.at(plane, y, x);
    if (!reads_value()) return g;
    const T v = value.at(plane, y, x);
    if (affine.scale == nullptr) return passed_back(g, v, function);
    const int index = plane.sample * affine.channels + plane.channel;
    const ScaleAndShift<T> of = affine.at(index), vjp{slope[index], offset[index], of.center};
    return passed_back(g, of(v), function) * of.scale + vjp(v);
  }

  /// Host: the address where load_row will begin to read, null if it reads nothing. There are two tensors.
  static constexpr int tensors = 2;
  const S* address(int which, int n, int c, index_t y, index_t x) const {
    PlaneAt plane = depth.input(n, c);
    if (!unstuff(0, plane.z) || !unstuff(1, y)) return nullptr;
    if (stuffing[2] != 1) x = floor_div(x, stuffing[2]);
    if (which == 0) return gradient.row(plane, y) + (x - gradient.x0);
    return reads_value() ? value.row(plane, y) + (x - value.x0) : nullptr;
  }

  /// Host: the row's points [x0, x0 + count) in memory; null if they cannot be read as they are.
  const T* standing_row(PlaneAt plane, index_t y, index_t x0, index_t count) const {
    const bool plain = !reads_value() && stuffing[2] == 1;
    if (!plain || !unstuff(0, plane.z) || !unstuff(1, y) || !frame.has_columns(x0, count)) return nullptr;
    if constexpr (std::is_same_v<S, T>)
      return gradient.row(plane, y) + (x0 - gradient.x0);
    else
      return nullptr;
  }

  /// Host: writes the row's points [x0, x0 + count) to out.
  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    load_row(depth.input(n, c), y, x0, count, out);
  }

  void load_row(const PlaneAt& stuffed, index_t stuffed_y, index_t x0, index_t count, T* out) const {
    PlaneAt plane = stuffed;
    index_t y = stuffed_y;
    if (!unstuff(0, plane.z) || !unstuff(1, y)) return (void)std::memset(out, 0, count * sizeof(T));
    if (stuffing[2] == 1) return load_standing(plane, y, x0, count, out);
    const Interval points{ceil_div(x0, stuffing[2]), ceil_div(x0 + count, stuffing[2])};
    T* standing = out + (count - points.size());  // no point moves to a lower address
    load_standing(plane, y, points.begin, points.size(), standing);
    index_t filled = 0;
    for (index_t i = 0; i < points.size(); ++i) {
      const index_t to = (points.begin + i) * stuffing[2] - x0;
      const T point = standing[i];
      while (filled < to) out[filled++] = T(0);
      out[filled++] = point;
    }
    while (filled < count) out[filled++] = T(0);
  }

  /// Turns the position into that of the gradient, and returns whether it has one in dimension d.
  HALOGEN_FUNCTION bool unstuff(int d, index_t& position) const {
    if (stuffing[d] != 1) {
      if (floor_mod(position, stuffing[d]) != 0) return false;
      position = floor_div(position, stuffing[d]);
    }
    return !frame.outside(d, position);
  }

 private:
  HALOGEN_FUNCTION bool reads_value() const { return affine.scale != nullptr || function; }

  /// Reads the gradient's own row y.
  void load_standing(const PlaneAt& plane, index_t y, index_t x0, index_t count, T* out) const {
    detail::read_inside(frame, x0, count, out, [&](index_t begin, index_t size, T* to) {
      const S* g = gradient.row(plane, y) + (begin - gradient.x0);
      if (!reads_value()) return detail::copy_row(g, size, to);
      const S* v = value.row(plane, y) + (begin - value.x0);
      if (!only_clips(function)) return load_passed_back(plane, g, v, size, to);
      if (affine.scale == nullptr)
        return for_each_vector<T>(size, [&]<class V>(index_t i) {
          store<V>(to + i, load_ahead<V>(v + i) <= T(0) ? V{} : load_ahead<V>(g + i));
        });
      const int index = plane.sample * affine.channels + plane.channel;
      const ScaleAndShift<T> of = affine.at(index), vjp{slope[index], offset[index], of.center};
      const bool clips = static_cast<bool>(function);
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        const V x = load_ahead<V>(v + i);
        V d = load_ahead<V>(g + i);
        if (clips) d = of(x) <= T(0) ? V{} : d;
        store<V>(to + i, d * of.scale + vjp(x));
      });
    });
  }

  void load_passed_back(const PlaneAt& plane, const S* g, const S* v, index_t size, T* to) const {
    if (affine.scale == nullptr) return pass_back_row<T>(function, g, v, {}, size, to);
    const int index = plane.sample * affine.channels + plane.channel;
    const ScaleAndShift<T> of = affine.at(index), vjp{slope[index], offset[index], of.center};
    pass_back_row<T>(function, g, v, of, size, to);
    for_each_vector<T>(size,
                       [&]<class V>(index_t i) { store<V>(to + i, load<V>(to + i) * of.scale + vjp(load<V>(v + i))); });
  }
};

/// Whether a reader reads a gradient.
template <class Reader>
inline constexpr bool reads_gradient = false;
template <class S>
inline constexpr bool reads_gradient<GradientReader<S>> = true;

}  // namespace halogen::kernels
