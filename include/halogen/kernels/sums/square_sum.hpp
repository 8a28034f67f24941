// Sums of squares of the blocks of a flat array, in double and in one order for any number of threads.
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"

namespace halogen::kernels {

inline constexpr index_t square_block = 256;

/// Work item b adds the squares of block b in their order.
template <class T>
struct SumSquares {
  const T* from;
  index_t count;
  double* to;

  KOKKOS_FUNCTION void operator()(const index_t b) const {
    const index_t begin = b * square_block, end = begin + square_block < count ? begin + square_block : count;
    double sum = 0;
    for (index_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(from[i]);
      sum += value * value;
    }
    to[b] = sum;
  }
};

}  // namespace halogen::kernels
