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

/// One boundary per spatial dimension: Boundary<Zero, Periodic> is height, width; three are depth, height, width.
template <class... Edges>
struct Boundary {
  static constexpr int dimensions = static_cast<int>(sizeof...(Edges));
  static constexpr bool periodic[dimensions] = {Edges::periodic...};
};

}  // namespace halogen
