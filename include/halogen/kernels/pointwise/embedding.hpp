// Kernels of Embedding and TimeEmbedding: vectors for an index, and for a time.
#pragma once

#include <limits>

#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/rows/views.hpp"
#include "halogen/kernels/tiles/tiles.hpp"

namespace halogen::kernels {

/// A row of the table for each index. An index without a row gives NaN.
template <class S>
struct EmbeddingRows {
  using T = compute_type<S>;
  IndexView indices;
  const T* table;
  int rows, channels;

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const index_t row = indices.at(n, y, x);
    return row >= 0 && row < rows ? table[row * channels + c] : std::numeric_limits<T>::quiet_NaN();
  }
};

/// What the gradients of the points in one block of tiles add to a channel of the table, in double. A work item is
/// (block, channel). Partial results: [block][row][channel].
template <class S, class Gradient>
struct EmbeddingSums {
  IndexView indices;
  Gradient gradient;
  int rows, channels;
  Tiling tiling;
  int blocks;
  double* partial;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int c = static_cast<int>(i % channels);
    const index_t block = i / channels;
    double* sums = partial + block * rows * channels;
    for (int row = 0; row < rows; ++row) sums[row * channels + c] = 0;
    const Interval tiles = tiling.of_block(block, blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
        for (index_t x = tile.columns.begin; x < tile.columns.end; ++x) {
          const index_t row = indices.at(tile.sample, y, x);
          if (row >= 0 && row < rows)
            sums[row * channels + c] += static_cast<double>(gradient.at(tile.sample, c, y, x));
        }
    }
  }
};

/// The time at a point: a value, or an index.
template <class S>
struct TimeOf {
  using T = compute_type<S>;
  ValueReader<S> value;
  IndexView indices;
  bool integer;

  KOKKOS_FUNCTION T at(int n, index_t y, index_t x) const {
    return integer ? static_cast<T>(indices.at(n, y, x)) : value.at(n, 0, y, x);
  }
};

/// Half of the channels are cosines of the time, the other half sines.
template <class S>
struct TimeEmbeddingRows {
  using T = compute_type<S>;
  TimeOf<S> time;
  int half;
  double log_period;

  KOKKOS_FUNCTION T frequency(int c) const {
    return static_cast<T>(Kokkos::exp(-log_period * static_cast<double>(c % half) / half));
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const T angle = time.at(n, y, x) * frequency(c);
    return c < half ? Kokkos::cos(angle) : Kokkos::sin(angle);
  }
};

/// The gradient of the time from the gradients of the channels.
template <class S, class Gradient>
struct TimeEmbeddingBackwardRows {
  using T = compute_type<S>;
  TimeEmbeddingRows<S> forward;
  Gradient gradient;

  KOKKOS_FUNCTION T at(int n, int, index_t y, index_t x) const {
    T sum = 0;
    for (int c = 0; c < forward.half; ++c) {
      const T frequency = forward.frequency(c), angle = forward.time.at(n, y, x) * frequency;
      sum += frequency * (gradient.at(n, forward.half + c, y, x) * Kokkos::cos(angle) -
                          gradient.at(n, c, y, x) * Kokkos::sin(angle));
    }
    return sum;
  }
};

}  // namespace halogen::kernels
