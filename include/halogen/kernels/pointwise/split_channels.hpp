// Kernels of Chunk: some channels of a value, and 0 for others.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// Channels from `begin` on. The value has `size` channels; all others are 0.
template <class S, class Reader>
struct ChunkRows {
  using T = compute_type<S>;
  Reader input;
  int begin, size;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    const int from = begin + c;
    if (from >= 0 && from < size)
      input.load_row(n, from, y, x0, count, out);
    else
      for (index_t i = 0; i < count; ++i) out[i] = 0;
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const int from = begin + c;
    return from >= 0 && from < size ? input.at(n, from, y, x) : T(0);
  }
};

}  // namespace halogen::kernels
