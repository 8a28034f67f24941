// Rotates pairs of channels by an angle that depends on a point's place.
#pragma once

#include <cmath>

#include "halogen/kernels/rows/views.hpp"
#include "halogen/kernels/rows/whole_field.hpp"

namespace halogen::kernels {

/// The angle of each pair of channels. The channels of a head have one part for each of `dimensions`. Pair k of a part
/// with `width` channels turns by base^(-2 k / width) from one point to the next along the part's dimension.
struct RotaryAngles {
  WholeField field;
  int rotated, head, dimensions;  ///< how many channels turn, the first ones; how many a head has
  double base, sign;              ///< sign: -1 turns back

  KOKKOS_FUNCTION bool turns(int c) const { return c < rotated; }
  KOKKOS_FUNCTION int width() const { return head / dimensions; }
  /// The spatial dimension of the channel: depth, height or width.
  KOKKOS_FUNCTION int dimension(int c) const { return spatial_dimensions - dimensions + c % head / width(); }
  KOKKOS_FUNCTION double speed(int c) const {
    const int pair = c % head % width() / 2;
    return sign * Kokkos::pow(base, -2.0 * pair / width());
  }
  /// The place of a row's points, if the channel's dimension is not along the row.
  KOKKOS_FUNCTION index_t row_place(int n, int c, index_t y) const { return dimension(c) == 0 ? field.plane(n) : y; }
};

/// y[2 k] = x[2 k] cos - x[2 k + 1] sin, y[2 k + 1] = x[2 k + 1] cos + x[2 k] sin. For channels from `first` on. Angles
/// and their sines are computed in double, products in the value type.
template <class S, class Reader>
struct RotaryRows {
  using T = compute_type<S>;
  Reader input;
  RotaryAngles angles;
  int first = 0;

  index_t scratch_size(index_t count) const { return count; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* partner) const {
    const int channel = first + c;
    input.load_row(n, channel, y, x0, count, out);
    if (!angles.turns(channel)) return;
    input.load_row(n, channel ^ 1, y, x0, count, partner);
    const double speed = angles.speed(channel);
    if (angles.dimension(channel) == spatial_dimensions - 1) {
      for (index_t i = 0; i < count; ++i)
        out[i] = turned(channel, out[i], partner[i], speed * static_cast<double>(x0 + i));
      return;
    }
    const double angle = speed * static_cast<double>(angles.row_place(n, channel, y));
    const T cosine = static_cast<T>(std::cos(angle)), sine = side(channel) * static_cast<T>(std::sin(angle));
    for (index_t i = 0; i < count; ++i) out[i] = out[i] * cosine + partner[i] * sine;
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const int channel = first + c;
    const T value = input.at(n, channel, y, x);
    if (!angles.turns(channel)) return value;
    const index_t place = angles.dimension(channel) == spatial_dimensions - 1 ? x : angles.row_place(n, channel, y);
    return turned(channel, value, input.at(n, channel ^ 1, y, x), angles.speed(channel) * static_cast<double>(place));
  }

 private:
  KOKKOS_FUNCTION static T side(int channel) { return channel % 2 == 0 ? T(-1) : T(1); }
  KOKKOS_FUNCTION static T turned(int channel, T value, T partner, double angle) {
    return value * static_cast<T>(Kokkos::cos(angle)) + partner * (side(channel) * static_cast<T>(Kokkos::sin(angle)));
  }
};

}  // namespace halogen::kernels
