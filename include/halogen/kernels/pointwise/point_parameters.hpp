// Kernels of layers that have numbers for each point of the whole field: y = x + b, or y = w x + b.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// Where a table has the number of a channel at a point. It has the points of a box: those of the whole field, or of a
/// rank.
template <bool ChannelsFirst>
struct PointTable {
  int channels;
  index_t first[spatial_dimensions], extent[spatial_dimensions];  ///< of the box
  index_t first_plane;                                            ///< of this rank's points
  int planes;                                                     ///< of one sample

  KOKKOS_FUNCTION index_t points() const { return extent[0] * extent[1] * extent[2]; }
  KOKKOS_FUNCTION index_t values() const { return points() * channels; }
  /// The index of a channel at column x of a row.
  KOKKOS_FUNCTION index_t entry(int n, int c, index_t y, index_t x) const {
    const index_t z = first_plane + n % planes;
    const index_t place = ((z - first[0]) * extent[1] + y - first[1]) * extent[2] + x - first[2];
    return ChannelsFirst ? c * points() + place : place * channels + c;
  }
  /// From a point of a row to the next.
  KOKKOS_FUNCTION index_t step() const { return ChannelsFirst ? 1 : channels; }
  /// The channel of an entry, and its point: plane among this rank's, row and column.
  KOKKOS_FUNCTION int channel(index_t entry) const {
    return static_cast<int>(ChannelsFirst ? entry / points() : entry % channels);
  }
  KOKKOS_FUNCTION void point(index_t entry, index_t& plane, index_t& y, index_t& x) const {
    const index_t place = ChannelsFirst ? entry % points() : entry / channels;
    x = first[2] + place % extent[2];
    y = first[1] + place / extent[2] % extent[1];
    plane = first[0] + place / (extent[2] * extent[1]) - first_plane;
  }
};

/// With Scales there are tables of w and b, channels first. Otherwise there is only b, and it is 0 if null. Reader
/// reads a value, or the gradient that is scaled backward.
template <class S, bool Scales, class Reader>
struct PointParameterRows {
  using T = compute_type<S>;
  Reader input;
  int first = 0;  ///< first channel
  const T *weight = nullptr, *bias = nullptr;
  PointTable<Scales> of_weight = {}, of_bias = {};

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(n, first + c, y, x0, count, out);
    if (Scales) {
      const T* at = weight + of_weight.entry(n, c, y, x0);
      for (index_t i = 0; i < count; ++i) out[i] *= at[i * of_weight.step()];
    }
    if (bias != nullptr) {
      const T* at = bias + of_bias.entry(n, c, y, x0);
      for (index_t i = 0; i < count; ++i) out[i] += at[i * of_bias.step()];
    }
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    T value = input.at(n, first + c, y, x);
    if (Scales) value *= weight[of_weight.entry(n, c, y, x)];
    return bias != nullptr ? value + bias[of_bias.entry(n, c, y, x)] : value;
  }
};

/// For an entry of the table: the sum of g or, if it has weights, of g x, at its point over this rank's samples, in
/// double. A g of 0 adds nothing, even if x is NaN. The sum is 0 if another rank has the point.
template <class S, bool ChannelsFirst, bool OfWeights>
struct PointParameterSums {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  ValueReader<S> input;  ///< of weights
  PointTable<ChannelsFirst> table;
  int samples;
  Interval rows, columns;
  T* sums;

  KOKKOS_FUNCTION void operator()(const index_t entry) const {
    const int c = table.channel(entry);
    index_t plane, y, x;
    table.point(entry, plane, y, x);
    double sum = 0;
    if (plane >= 0 && plane < table.planes && y >= rows.begin && y < rows.end && x >= columns.begin && x < columns.end)
      for (int sample = 0; sample < samples; ++sample) {
        const int n = sample * table.planes + static_cast<int>(plane);
        const double g = static_cast<double>(gradient.at(n, c, y, x));
        if (g != 0) sum += OfWeights ? g * static_cast<double>(input.at(n, c, y, x)) : g;
      }
    sums[entry] = static_cast<T>(sum);
  }
};

}  // namespace halogen::kernels
