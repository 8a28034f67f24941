// What kernels know of fields: pointers, strides, and where in the global field the first element lies.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/shuffle.hpp"
#include "halogen/placement/chunk.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::kernels {

/// A norm as its readers apply it, tables over (n, c): y = scale * x + shift.
template <class T>
struct Affine {
  const T* scale = nullptr;
  const T* shift = nullptr;
  int channels = 0;
};

/// Where a reader's field ends: beyond extent stands 0, or the other end's image in the margin.
struct Frame {
  index_t extent[spatial_dimensions] = {1, 0, 0};
  bool periodic[spatial_dimensions] = {false, false, false};

  HALOGEN_FUNCTION bool outside(int dimension, index_t position) const {
    return !periodic[dimension] && (position < 0 || position >= extent[dimension]);
  }
  bool has_columns(index_t x0, index_t count) const { return columns_inside({x0, x0 + count}).size() == count; }
  Interval columns_inside(const Interval& columns) const {
    return periodic[2] ? columns : intersect(columns, {0, extent[2]});
  }
};

/// The depth of a window. Kernels are two-dimensional: they count the planes that they compute as samples, and the
/// planes of a window as channels. Sample n is output plane first + n % planes of sample n / planes, channel c is tap
/// c % kernel of channel c / kernel, as PyTorch's (Out, In, KD, KH, KW) lies in memory.
struct DepthWindow {
  int planes = 1;
  index_t first = 0;
  int kernel = 1, stride = 1, dilation = 1;
  index_t padding = 0;

  HALOGEN_FUNCTION PlaneAt input(int n, int c) const {
    index_t z = first;
    if (planes > 1) z += n % planes, n /= planes;
    z = z * stride - padding;
    if (kernel > 1) z += index_t{c % kernel} * dilation, c /= kernel;
    return {n, c, z};
  }
};

namespace detail {

/// Fills out[0, count) for positions x0.. with 0 outside the frame's columns and read(x_begin, size, out) inside.
template <class T, class Read>
inline void read_inside(const Frame& frame, index_t x0, index_t count, T* out, Read read) {
  index_t begin = x0, end = x0 + count;
  if (!frame.periodic[2]) {
    begin = begin < 0 ? 0 : begin;
    end = end > frame.extent[2] ? frame.extent[2] : end;
    if (begin >= end) begin = end = x0;
    for (index_t x = x0; x < begin; ++x) out[x - x0] = T(0);
    for (index_t x = end; x < x0 + count; ++x) out[x - x0] = T(0);
  }
  if (end > begin) read(begin, end - begin, out + (begin - x0));
}

template <class T>
inline void copy_row(const T* from, index_t count, T* to) {
  for_each_vector<T>(count, [&]<class V>(index_t i) { store(to + i, load<V>(from + i)); });
}

/// How far between its two points a reader of a linear resampling stands.
template <class T>
HALOGEN_FUNCTION T fraction(const Resample::Between& place, const Resample& map) {
  return static_cast<T>(place.part) / static_cast<T>(2 * map.to);
}

/// One multiplication and addition, so that vectors and single points are rounded alike.
template <class T>
HALOGEN_FUNCTION T interpolate(T a, T b, T part) {
  return a + (b - a) * part;
}

/// The outputs of a linear resampling by a whole factor that stand alike between two points of the field each: from
/// `begin` on `steps` times the factor, all in [first, end).
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

/// Points [begin, end) of a row that lies between the points of `from`, whose first is point `first`.
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
  index_t done = 0;  // steps
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

/// max(value, 0); a NaN stays one.
template <class T>
HALOGEN_FUNCTION T clip(T value, bool relu) {
  return relu && value < T(0) ? T(0) : value;
}

}  // namespace detail

/// A stored tensor as a reader sees it: resampled, normalised, clipped, in this order.
template <class T>
struct SourceView {
  TensorView<T> tensor;
  Affine<T> affine;
  bool relu = false;
  bool resampled = false;
  Resample map[spatial_dimensions];
  int channels = 0;
};

/// A network value: up to four sources side by side along the channels.
template <class T>
struct ValueReader {
  using value_type = T;
  SourceView<T> sources[4];
  int count = 0;
  Frame frame;
  DepthWindow depth;

  /// Which source holds channel c, which then counts in it.
  HALOGEN_FUNCTION int find(int& c) const {
    if (c < sources[0].channels) return 0;
    c -= sources[0].channels;
    if (c < sources[1].channels) return 1;
    c -= sources[1].channels;
    if (c < sources[2].channels) return 2;
    c -= sources[2].channels;
    return 3;
  }

  /// That one, a copy of the members that are used. By no index that only the run knows: a device thread would copy
  /// all of the kernel's arguments to have one.
  KOKKOS_FORCEINLINE_FUNCTION SourceView<T> source_of(int& c) const {
    const int i = find(c);
    return i == 0 ? sources[0] : i == 1 ? sources[1] : i == 2 ? sources[2] : sources[3];
  }

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at(depth.input(n, c), y, x); }

  HALOGEN_FUNCTION T at(PlaneAt plane, index_t y, index_t x) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y) || frame.outside(2, x)) return T(0);
    const SourceView<T> s = source_of(plane.channel);
    if (!s.resampled) return seen(s, plane, y, x);
    plane.z = s.map[0].source(plane.z);
    if (!s.map[1].linear) return seen(s, plane, s.map[1].source(y), s.map[2].source(x));
    const Resample::Between v = s.map[1].between(y), h = s.map[2].between(x);
    const T down = detail::fraction<T>(v, s.map[1]), across = detail::fraction<T>(h, s.map[2]);
    const T a = detail::interpolate(seen(s, plane, v.first, h.first), seen(s, plane, v.second, h.first), down);
    const T b = detail::interpolate(seen(s, plane, v.first, h.second), seen(s, plane, v.second, h.second), down);
    return detail::interpolate(a, b, across);
  }

  /// Host: where load_row will begin to read, null where nothing stands; one tensor.
  static constexpr int tensors = 1;
  const T* address(int, int n, int c, index_t y, index_t x) const {
    PlaneAt plane = depth.input(n, c);
    if (frame.outside(0, plane.z) || frame.outside(1, y)) return nullptr;
    const SourceView<T>& s = sources[find(plane.channel)];
    if (s.resampled) plane.z = s.map[0].source(plane.z), y = s.map[1].source(y), x = s.map[2].source(x);
    return s.tensor.row(plane, y) + (x - s.tensor.x0);
  }

  /// Host: the row's points [x0, x0 + count) where they stand, null unless they can be read there.
  const T* standing_row(PlaneAt plane, index_t y, index_t x0, index_t count_of_row) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y) || !frame.has_columns(x0, count_of_row)) return nullptr;
    const SourceView<T>& s = sources[find(plane.channel)];
    if (s.affine.scale != nullptr || s.relu || s.resampled) return nullptr;
    return s.tensor.row(plane, y) + (x0 - s.tensor.x0);
  }

  /// Host: the row's points [x0, x0 + count) into out.
  void load_row(int n, int c, index_t y, index_t x0, index_t count_of_row, T* out) const {
    load_row(depth.input(n, c), y, x0, count_of_row, out);
  }

  void load_row(PlaneAt plane, index_t y, index_t x0, index_t count_of_row, T* out) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y)) return (void)std::memset(out, 0, count_of_row * sizeof(T));
    const SourceView<T>& s = sources[find(plane.channel)];
    if (s.resampled && s.map[1].linear)
      return detail::read_inside(frame, x0, count_of_row, out, [&](index_t begin, index_t size, T* to) {
        load_between(s, plane, y, begin, size, to);
      });
    if (s.resampled) plane.z = s.map[0].source(plane.z), y = s.map[1].source(y);
    const T* from = s.tensor.row(plane, y);
    detail::read_inside(frame, x0, count_of_row, out, [&](index_t begin, index_t size, T* to) {
      const T* points = from + (begin - s.tensor.x0);
      if (s.resampled) {
        gather(s.map[2], from - s.tensor.x0, begin, size, to);
        points = to;
      }
      finish(s, plane.sample * s.affine.channels + plane.channel, points, size, to);
    });
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static T seen(const SourceView<T>& s, const PlaneAt& plane, index_t y, index_t x) {
    const T value = s.tensor.at(plane, y, x);
    if (s.affine.scale == nullptr) return detail::clip(value, s.relu);
    const int index = plane.sample * s.affine.channels + plane.channel;
    return detail::clip(value * s.affine.scale[index] + s.affine.shift[index], s.relu);
  }

  /// Two rows as the reader sees them, between them the row, between its points the result; piece by piece in L1.
  static void load_between(const SourceView<T>& s, const PlaneAt& plane, index_t y, index_t x0, index_t count, T* out) {
    constexpr index_t most = 1024;  // points of a coarse row at once
    T rows[2][most];
    const bool plain = s.affine.scale == nullptr && !s.relu;
    const Resample& map = s.map[2];
    const Resample::Between v = s.map[1].between(y);
    const T down = detail::fraction<T>(v, s.map[1]);
    const int index = plane.sample * s.affine.channels + plane.channel;
    const index_t piece = std::max<index_t>(1, (most - 3) * map.to / map.from);
    for (index_t begin = x0; begin < x0 + count; begin += piece) {
      const index_t end = std::min(begin + piece, x0 + count);
      const Interval source = map.input_of({begin, end});
      const index_t size = source.size(), skip = source.begin - s.tensor.x0;
      const T* between[2] = {s.tensor.row(plane, v.first) + skip, s.tensor.row(plane, v.second) + skip};
      for (int r = 0; r < 2 && !plain; ++r) {
        finish(s, index, between[r], size, rows[r]);
        between[r] = rows[r];
      }
      const T* ahead = s.tensor.row(plane, v.second + 1) + skip;  // short rows: the hardware asks for each anew, late
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        __builtin_prefetch(ahead + i);
        const V a = load<V>(between[0] + i), b = load<V>(between[1] + i);
        store<V>(rows[0] + i, a + (b - a) * down);
      });
      detail::interpolate_row(map, rows[0], source.begin, begin, end, out + (begin - x0));
    }
  }

  static void gather(const Resample& map, const T* from, index_t begin, index_t size, T* to) {
    if (map.to == 2 * map.from) return gather_twice(from, begin, size, to);
    index_t source = map.source(begin), rest = floor_mod(begin * map.from, map.to);
    for (index_t i = 0; i < size; ++i) {
      to[i] = from[source];
      for (rest += map.from; rest >= map.to; rest -= map.to) ++source;
    }
  }

  /// Each point for two: to[i] = from[(begin + i) / 2].
  static void gather_twice(const T* from, index_t begin, index_t size, T* to) {
    index_t i = 0;
    if (begin % 2 != 0 && size > 0) to[i++] = from[floor_div(begin, 2)];
    const T* source = from + floor_div(begin + i, 2);
    for (; i + 2 * lanes<T> <= size; i += 2 * lanes<T>, source += lanes<T>) {
      const Vector<T> values = load<Vector<T>>(source);
      store_pairs<T>(to + i, values, values);
    }
    for (bool second = false; i < size; ++i, second = !second) {
      to[i] = *source;
      source += second;
    }
  }

  static void finish(const SourceView<T>& s, int index, const T* from, index_t size, T* to) {
    if (s.affine.scale != nullptr) {
      const T scale = s.affine.scale[index], shift = s.affine.shift[index];
      if (s.relu)
        for_each_vector<T>(size, [&]<class V>(index_t i) {
          const V value = load<V>(from + i) * scale + shift;
          store<V>(to + i, value < T(0) ? V{} : value);
        });
      else
        for_each_vector<T>(size, [&]<class V>(index_t i) { store<V>(to + i, load<V>(from + i) * scale + shift); });
    } else if (s.relu) {
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        const V value = load<V>(from + i);
        store<V>(to + i, value < T(0) ? V{} : value);
      });
    } else if (from != to) {
      detail::copy_row(from, size, to);
    }
  }
};

/// The gradient of a stored tensor, recomputed from the gradient of the activation that its readers saw:
/// through ReLU g' = g where scale * x + shift > 0, through the norm scale * g' + slope * x + offset.
template <class T>
struct GradientReader {
  using value_type = T;
  TensorView<T> gradient, value;
  Affine<T> affine;
  const T* slope = nullptr;  ///< over (n, c), null without norm
  const T* offset = nullptr;
  bool relu = false;
  /// Point e of the reader is point e / stuffing, or 0 between two: strided windows.
  int stuffing[spatial_dimensions] = {1, 1, 1};
  Frame frame;  ///< extent of the gradient itself
  DepthWindow depth;

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at(depth.input(n, c), y, x); }

  HALOGEN_FUNCTION T at(PlaneAt plane, index_t y, index_t x) const {
    if (!unstuff(0, plane.z) || !unstuff(1, y) || !unstuff(2, x)) return T(0);
    T g = gradient.at(plane, y, x);
    if (affine.scale == nullptr) return relu && !(value.at(plane, y, x) > T(0)) ? T(0) : g;
    const int index = plane.sample * affine.channels + plane.channel;
    const T v = value.at(plane, y, x);
    if (relu && !(v * affine.scale[index] + affine.shift[index] > T(0))) g = T(0);
    return g * affine.scale[index] + (v * slope[index] + offset[index]);
  }

  /// Host: where load_row will begin to read, null where nothing stands; two tensors.
  static constexpr int tensors = 2;
  const T* address(int which, int n, int c, index_t y, index_t x) const {
    PlaneAt plane = depth.input(n, c);
    if (!unstuff(0, plane.z) || !unstuff(1, y)) return nullptr;
    x = floor_div(x, stuffing[2]);
    if (which == 0) return gradient.row(plane, y) + (x - gradient.x0);
    return affine.scale != nullptr || relu ? value.row(plane, y) + (x - value.x0) : nullptr;
  }

  /// Host: the row's points [x0, x0 + count) where they stand, null unless they can be read there.
  const T* standing_row(PlaneAt plane, index_t y, index_t x0, index_t count) const {
    const bool plain = affine.scale == nullptr && !relu && stuffing[2] == 1;
    if (!plain || !unstuff(0, plane.z) || !unstuff(1, y) || !frame.has_columns(x0, count)) return nullptr;
    return gradient.row(plane, y) + (x0 - gradient.x0);
  }

  /// Host: the row's points [x0, x0 + count) into out.
  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    load_row(depth.input(n, c), y, x0, count, out);
  }

  void load_row(const PlaneAt& stuffed, index_t stuffed_y, index_t x0, index_t count, T* out) const {
    PlaneAt plane = stuffed;
    index_t y = stuffed_y;
    if (!unstuff(0, plane.z) || !unstuff(1, y)) return (void)std::memset(out, 0, count * sizeof(T));
    if (stuffing[2] != 1) {
      for (index_t i = 0; i < count; ++i) out[i] = at(stuffed, stuffed_y, x0 + i);
      return;
    }
    detail::read_inside(frame, x0, count, out, [&](index_t begin, index_t size, T* to) {
      const T* g = gradient.row(plane, y) + (begin - gradient.x0);
      if (affine.scale == nullptr && !relu) return detail::copy_row(g, size, to);
      const T* v = value.row(plane, y) + (begin - value.x0);
      if (affine.scale == nullptr)
        return for_each_vector<T>(
            size, [&]<class V>(index_t i) { store<V>(to + i, load<V>(v + i) > T(0) ? load<V>(g + i) : V{}); });
      const int index = plane.sample * affine.channels + plane.channel;
      const T a = affine.scale[index], b = affine.shift[index], s = slope[index], o = offset[index];
      const bool clips = relu;
      for_each_vector<T>(size, [&]<class V>(index_t i) {
        const V x = load<V>(v + i);
        V d = load<V>(g + i);
        if (clips) d = x * a + b > T(0) ? d : V{};
        store<V>(to + i, d * a + (x * s + o));
      });
    });
  }

  /// The gradient's own position, and whether there is one in dimension d.
  HALOGEN_FUNCTION bool unstuff(int d, index_t& position) const {
    if (stuffing[d] != 1) {
      if (floor_mod(position, stuffing[d]) != 0) return false;
      position = floor_div(position, stuffing[d]);
    }
    return !frame.outside(d, position);
  }
};

}  // namespace halogen::kernels
