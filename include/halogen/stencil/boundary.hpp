// What a window reads beyond the field's edge; part of the reader's type, not of the tensor.
#pragma once

#include "halogen/core/config.hpp"

namespace halogen {

/// Where the points beyond an edge come from: nowhere, the other end, or an index of the field's own.
enum class Edge { zero, periodic, reflect, replicate };

/// Whether a point beyond the edge is the image of one inside, which is read instead.
HALOGEN_FUNCTION constexpr bool has_images(Edge edge) { return edge == Edge::reflect || edge == Edge::replicate; }

/// That point, of a field of `extent` points: at most extent - 1 beyond where it reflects.
HALOGEN_FUNCTION constexpr index_t image_of(Edge edge, index_t point, index_t extent) {
  const index_t last = extent - 1;
  if (point < 0) return edge == Edge::reflect ? -point : 0;
  if (point > last) return edge == Edge::reflect ? 2 * last - point : last;
  return point;
}

/// Base of what follows; not of namespace detail, where calls on fields would then look for functions.
template <Edge Kind>
struct EdgeIs {
  static constexpr Edge edge = Kind;
  static constexpr bool periodic = Kind == Edge::periodic;
};

/// Beyond the edge stands 0 (after the reader's prologue, as in PyTorch's zero padding).
struct Zero : EdgeIs<Edge::zero> {};

/// Beyond the edge the field goes on at its other end: longitude. PyTorch's padding_mode='circular'.
struct Periodic : EdgeIs<Edge::periodic> {};

/// Beyond the edge stands the mirror image, about the last point: u(-i) = u(i). PyTorch's padding_mode='reflect'.
struct Reflect : EdgeIs<Edge::reflect> {};

/// Beyond the edge stands the last point: no gradient across it. PyTorch's padding_mode='replicate'.
struct ReplicateEdge : EdgeIs<Edge::replicate> {};

/// One boundary per spatial dimension: Boundary<Zero, Periodic> is height, width; three are depth, height, width.
template <class... Edges>
struct Boundary {
  static constexpr int dimensions = static_cast<int>(sizeof...(Edges));
  static constexpr bool periodic[dimensions] = {Edges::periodic...};
};

}  // namespace halogen
