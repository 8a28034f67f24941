// Channels to points and back: the R x R fine points of a coarse point are channels.
#pragma once

#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {

/// The number of the channel of a coarse point that holds point (i, j) of R x R in channel c.
template <int R>
struct ChannelsOutside {  ///< a channel's points side by side, row by row
  KOKKOS_FUNCTION int channel(int c, index_t i, index_t j) const {
    return (c * R + static_cast<int>(i)) * R + static_cast<int>(j);
  }
  KOKKOS_FUNCTION void point(int q, int& c, int& i, int& j) const { c = q / (R * R), i = q / R % R, j = q % R; }
};
template <int R>
struct PointsOutside {  ///< a point's channels side by side, column by column
  int channels;         ///< of the fine field
  KOKKOS_FUNCTION int channel(int c, index_t i, index_t j) const {
    return (static_cast<int>(j) * R + static_cast<int>(i)) * channels + c;
  }
  KOKKOS_FUNCTION void point(int q, int& c, int& i, int& j) const {
    c = q % channels, i = q / channels % R, j = q / channels / R;
  }
};

/// out[c, R y + i, R x + j] = in[order.channel(c, i, j), y, x].
template <class S, int R, class Order, class Reader>
struct ChannelsToPoints {
  using T = compute_type<S>;
  Reader input;
  Order order;
  int first = 0;  ///< first channel of the output

  index_t scratch_size(index_t columns) const { return columns / R + 2; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const index_t coarse = floor_div(y, R), begin = floor_div(x0, R), size = floor_div(x0 + count - 1, R) + 1 - begin;
    for (int j = 0; j < R; ++j) {
      input.load_row(n, order.channel(first + c, y - coarse * R, j), coarse, begin, size, scratch);
      for (index_t i = 0; i < size; ++i) {
        const index_t at = (begin + i) * R + j - x0;
        if (at >= 0 && at < count) out[at] = scratch[i];
      }
    }
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const index_t down = floor_div(y, R), across = floor_div(x, R);
    return input.at(n, order.channel(first + c, y - down * R, x - across * R), down, across);
  }
};

/// The inverse of ChannelsToPoints. It is also the adjoint.
template <class S, int R, class Order, class Reader>
struct PointsToChannels {
  using T = compute_type<S>;
  Reader input;
  Order order;
  int first = 0;  ///< first channel of the output

  index_t scratch_size(index_t columns) const { return columns * R; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    int from, i, j;
    order.point(first + c, from, i, j);
    input.load_row(n, from, y * R + i, x0 * R, count * R, scratch);
    for (index_t x = 0; x < count; ++x) out[x] = scratch[x * R + j];
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    int from, i, j;
    order.point(first + c, from, i, j);
    return input.at(n, from, y * R + i, x * R + j);
  }
};

}  // namespace halogen::kernels
