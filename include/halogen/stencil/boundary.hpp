// What a window reads beyond the field's edge; part of the reader's type, not of the tensor.
#pragma once

namespace halogen {

/// Beyond the edge stands 0 (after the reader's prologue, as in PyTorch's zero padding).
struct Zero {
  static constexpr bool periodic = false;
};

/// Beyond the edge the field goes on at its other end: longitude.
struct Periodic {
  static constexpr bool periodic = true;
};

/// One boundary per spatial dimension: Boundary<Zero, Periodic> is height, width.
template <class Height, class Width>
struct Boundary {
  static constexpr bool periodic[2] = {Height::periodic, Width::periodic};
};

}  // namespace halogen
