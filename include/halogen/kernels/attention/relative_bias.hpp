// What attention adds to the product of a query and a key: nothing, or a number that each head learns for each
// distance.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::kernels {

struct NoBias {
  static constexpr bool adds = false;
};

/// One number for each head and each distance of a query from a key in one window: [query - key + kernel - 1][head].
/// Distances in depth, height and width are numbered row by row (relative_position_bias_table of torchvision).
template <class T>
struct RelativeBias {
  static constexpr bool adds = true;
  const T* table = nullptr;
  int heads = 1;
  int kernel[spatial_dimensions] = {1, 1, 1};

  HALOGEN_FUNCTION int distances(int d) const { return 2 * kernel[d] - 1; }
  HALOGEN_FUNCTION index_t size() const { return index_t{distances(0)} * distances(1) * distances(2) * heads; }
  /// The index in the table for a distance and a head.
  HALOGEN_FUNCTION index_t place(int head, index_t down_planes, index_t down_rows, index_t across) const {
    const index_t row = (down_planes + kernel[0] - 1) * distances(1) + down_rows + kernel[1] - 1;
    return (row * distances(2) + across + kernel[2] - 1) * heads + head;
  }
};

}  // namespace halogen::kernels
