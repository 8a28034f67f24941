// Kernels of layers that have numbers for each point of the whole field: y = x + b, or y = w x + b.
#pragma once

#include "halogen/kernels/dropout.hpp"
#include "halogen/kernels/views.hpp"

namespace halogen::kernels {

/// Where a table has the number of a channel at a place (WholeField::place).
template <bool ChannelsFirst>
struct PointTable {
  WholeField field;
  int channels;

  KOKKOS_FUNCTION index_t points() const { return field.extent[0] * field.extent[1] * field.extent[2]; }
  /// The index of a row's first point, and the step from a point to the next.
  KOKKOS_FUNCTION index_t row(int n, int c, index_t y) const {
    return ChannelsFirst ? c * points() + field.place(n, y) : field.place(n, y) * channels + c;
  }
  KOKKOS_FUNCTION index_t step() const { return ChannelsFirst ? 1 : channels; }
  KOKKOS_FUNCTION int channel(index_t entry) const {
    return static_cast<int>(ChannelsFirst ? entry / points() : entry % channels);
  }
  KOKKOS_FUNCTION index_t place(index_t entry) const { return ChannelsFirst ? entry % points() : entry / channels; }
};

/// With Scales there are tables of w and b, channels first. Otherwise there is only b, and it is 0 if null. Reader
/// reads a value, or the gradient that is scaled backward.
template <class S, bool Scales, class Reader>
struct PointParameterRows {
  using T = compute_type<S>;
  Reader input;
  int first = 0;  ///< first channel
  PointTable<Scales> table;
  const T *weight = nullptr, *bias = nullptr;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(n, first + c, y, x0, count, out);
    const index_t step = table.step(), begin = table.row(n, c, y) + x0 * step;
    if (Scales)
      for (index_t i = 0; i < count; ++i) out[i] *= weight[begin + i * step];
    if (bias != nullptr)
      for (index_t i = 0; i < count; ++i) out[i] += bias[begin + i * step];
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const index_t entry = table.row(n, c, y) + x * table.step();
    T value = input.at(n, first + c, y, x);
    if (Scales) value *= weight[entry];
    return bias != nullptr ? value + bias[entry] : value;
  }
};

/// For an entry of the table: the sums of g, and of g x, at its point over this rank's samples, in double. They are 0
/// if another rank has the point.
template <class S, bool Scales>
struct PointParameterSums {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  ValueReader<S> input;  ///< if it scales
  PointTable<Scales> table;
  int samples;
  Interval rows, columns;
  T *weight, *bias;

  KOKKOS_FUNCTION void operator()(const index_t entry) const {
    const WholeField& field = table.field;
    const int c = table.channel(entry);
    const index_t place = table.place(entry), x = place % field.extent[2],
                  y = place / field.extent[2] % field.extent[1];
    const index_t plane = place / (field.extent[2] * field.extent[1]) - field.first_plane;
    double sum = 0, scaled = 0;
    if (plane >= 0 && plane < field.planes && y >= rows.begin && y < rows.end && x >= columns.begin && x < columns.end)
      for (int sample = 0; sample < samples; ++sample) {
        const int n = sample * field.planes + static_cast<int>(plane);
        const double g = static_cast<double>(gradient.at(n, c, y, x));
        sum += g;
        if (Scales) scaled += g * static_cast<double>(input.at(n, c, y, x));
      }
    bias[entry] = static_cast<T>(sum);
    if (Scales) weight[entry] = static_cast<T>(scaled);
  }
};

}  // namespace halogen::kernels
