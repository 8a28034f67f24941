// Rows of a field as readers see them, for kernels that read points. What a whole row shares is found once, and then a
// point costs little. at(i) is the row's point `first` + i.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels::device {

/// The points of a row that are in the field, counted from `first`: all if it is periodic, none if the row is outside.
struct RowRange {
  int begin = 0, end = 0;

  RowRange() = default;
  KOKKOS_FORCEINLINE_FUNCTION RowRange(const Frame& frame, index_t first, bool outside) {
    constexpr int far = 1 << 30;
    if (outside) return;
    begin = -far, end = far;
    if (frame.periodic[2]) return;
    begin = static_cast<int>(-first < -far ? -far : -first);
    const index_t last = frame.extent[2] - first;
    end = static_cast<int>(last > far ? far : last);
  }
  KOKKOS_FORCEINLINE_FUNCTION bool holds(int i) const { return i >= begin && i < end; }
};

/// A row of a value.
template <class S>
class ValueRow {
  using T = compute_type<S>;

 public:
  KOKKOS_FORCEINLINE_FUNCTION ValueRow(const ValueReader<S>& reader, PlaneAt plane, index_t y, index_t first) {
    range_ = {reader.frame, first, reader.frame.outside(0, plane.z) || reader.frame.outside(1, y)};
    if (range_.end <= range_.begin) return;
    const SourceView<S> s = reader.source_of(plane.channel);
    if (s.affine.scale != nullptr) {
      const int index = plane.sample * s.affine.channels + plane.channel;
      affine_ = s.affine.at(index);
      scaled_ = true;
    }
    function_ = s.function;
    if (!s.resampled) {
      near_ = s.tensor.row(plane, y) + (first - s.tensor.x0);
      return;
    }
    plane.z = s.map[0].source(plane.z);
    map_ = s.map[2];
    resampled_ = true;
    first_ = first;
    if (!s.map[1].linear) {
      near_ = s.tensor.row(plane, s.map[1].source(y)) - s.tensor.x0;
      return;
    }
    const Resample::Between v = s.map[1].between(y);
    down_ = detail::fraction<T>(v, s.map[1]);
    near_ = s.tensor.row(plane, v.first) - s.tensor.x0;
    far_ = s.tensor.row(plane, v.second) - s.tensor.x0;
  }

  KOKKOS_FORCEINLINE_FUNCTION T at(int i) const {
    if (!range_.holds(i)) return T(0);
    if (!resampled_) return seen(near_[i]);
    if (far_ == nullptr) return seen(near_[source(first_ + i)]);
    const Resample::Between h = map_.between(first_ + i);
    const T a = detail::interpolate(seen(near_[h.first]), seen(far_[h.first]), down_);
    const T b = detail::interpolate(seen(near_[h.second]), seen(far_[h.second]), down_);
    return detail::interpolate(a, b, detail::fraction<T>(h, map_));
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION T seen(T value) const { return activated(scaled_ ? affine_(value) : value, function_); }
  /// A division of 64-bit numbers takes longer than all the rest. Doubling needs none.
  KOKKOS_FORCEINLINE_FUNCTION index_t source(index_t x) const { return map_.doubles() ? x >> 1 : map_.source(x); }

  const S* near_ = nullptr;
  const S* far_ = nullptr;
  Resample map_;
  index_t first_ = 0;
  ScaleAndShift<T> affine_;
  T down_{};
  RowRange range_;
  Nonlinearity function_;
  bool scaled_ = false, resampled_ = false;
};

/// A row of a gradient.
template <class S>
class GradientRow {
  using T = compute_type<S>;

 public:
  KOKKOS_FORCEINLINE_FUNCTION GradientRow(const GradientReader<S>& reader, PlaneAt plane, index_t y, index_t first)
      : stuffing_(reader.stuffing[2]), first_(first) {
    const bool stands = reader.unstuff(0, plane.z) && reader.unstuff(1, y);
    range_ = {reader.frame, stuffing_ == 1 ? first : 0, !stands};
    if (range_.end <= range_.begin) return;
    const index_t skip = stuffing_ == 1 ? first : 0;
    gradient_ = reader.gradient.row(plane, y) + (skip - reader.gradient.x0);
    function_ = reader.function;
    if (function_ || reader.affine.scale != nullptr) value_ = reader.value.row(plane, y) + (skip - reader.value.x0);
    if (reader.affine.scale == nullptr) return;
    const int index = plane.sample * reader.affine.channels + plane.channel;
    affine_ = reader.affine.at(index);
    slope_ = reader.slope[index], offset_ = reader.offset[index];
    scaled_ = true;
  }

  KOKKOS_FORCEINLINE_FUNCTION T at(int i) const {
    if (stuffing_ == 1) return range_.holds(i) ? seen(i) : T(0);
    const index_t x = first_ + i, point = floor_div(x, stuffing_);
    if (point * stuffing_ != x || point < range_.begin || point >= range_.end) return T(0);
    return seen(point);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION T seen(index_t i) const {
    T g = gradient_[i];
    if (value_ == nullptr) return g;
    const T v = value_[i];
    g = passed_back(g, scaled_ ? affine_(v) : v, function_);
    return scaled_ ? g * affine_.scale + ((v - affine_.center) * slope_ + offset_) : g;
  }

  const S* gradient_ = nullptr;
  const S* value_ = nullptr;
  int stuffing_;
  index_t first_;
  ScaleAndShift<T> affine_;
  T slope_{}, offset_{};
  RowRange range_;
  Nonlinearity function_;
  bool scaled_ = false;
};

template <class S>
KOKKOS_FORCEINLINE_FUNCTION ValueRow<S> row_of(const ValueReader<S>& reader, const PlaneAt& plane, index_t y,
                                               index_t first) {
  return {reader, plane, y, first};
}
template <class S>
KOKKOS_FORCEINLINE_FUNCTION GradientRow<S> row_of(const GradientReader<S>& reader, const PlaneAt& plane, index_t y,
                                                  index_t first) {
  return {reader, plane, y, first};
}
/// A row of a reader that computes each point by itself, by a user's functor. It refers to the reader.
template <class Reader>
struct PointRow {
  const Reader& reader;
  int sample, channel;
  index_t y, first;
  KOKKOS_FORCEINLINE_FUNCTION auto at(int i) const { return reader.at(sample, channel, y, first + i); }
};

/// The row of kernel channel c and sample n, which count planes.
template <class Reader>
KOKKOS_FORCEINLINE_FUNCTION auto row_of(const Reader& reader, int n, int c, index_t y, index_t first) {
  if constexpr (requires { Reader::computes_points; })
    return PointRow<Reader>{reader, n, c, y, first};
  else
    return row_of(reader, reader.depth.input(n, c), y, first);
}

}  // namespace halogen::kernels::device
