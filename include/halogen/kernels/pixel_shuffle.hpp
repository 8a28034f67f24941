// Channels to points and back: the R x R points of a coarse point are channels (c R + i) R + j.
#pragma once

#include "halogen/kernels/row_kernels.hpp"

namespace halogen::kernels {

/// out[c, R y + i, R x + j] = in[(c R + i) R + j, y, x].
template <class S, int R, class Reader>
struct ChannelsToPoints {
  using T = compute_type<S>;
  Reader input;
  int first = 0;  ///< first channel of the output

  index_t scratch_size(index_t columns) const { return columns / R + 2; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const index_t coarse = floor_div(y, R), begin = floor_div(x0, R), size = floor_div(x0 + count - 1, R) + 1 - begin;
    for (int j = 0; j < R; ++j) {
      input.load_row(n, channel(first + c, y - coarse * R, j), coarse, begin, size, scratch);
      for (index_t i = 0; i < size; ++i) {
        const index_t at = (begin + i) * R + j - x0;
        if (at >= 0 && at < count) out[at] = scratch[i];
      }
    }
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const index_t down = floor_div(y, R), across = floor_div(x, R);
    return input.at(n, channel(first + c, y - down * R, x - across * R), down, across);
  }

 private:
  KOKKOS_FUNCTION static int channel(int c, index_t i, index_t j) {
    return (c * R + static_cast<int>(i)) * R + static_cast<int>(j);
  }
};

/// The inverse, and its adjoint.
template <class S, int R, class Reader>
struct PointsToChannels {
  using T = compute_type<S>;
  Reader input;
  int first = 0;  ///< first channel of the output

  index_t scratch_size(index_t columns) const { return columns * R; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const int from = (first + c) / (R * R), i = (first + c) / R % R, j = (first + c) % R;
    input.load_row(n, from, y * R + i, x0 * R, count * R, scratch);
    for (index_t x = 0; x < count; ++x) out[x] = scratch[x * R + j];
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return input.at(n, (first + c) / (R * R), y * R + (first + c) / R % R, x * R + (first + c) % R);
  }
};

}  // namespace halogen::kernels
