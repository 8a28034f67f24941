// What a window reads beyond the field's edge; part of the reader's type, not of the tensor.
#pragma once

#include <type_traits>

#include "halogen/core/config.hpp"
#include "halogen/core/why.hpp"

namespace halogen {

/// Where the points beyond an edge come from: nowhere, the other end, or an index of the field's own.
enum class Edge { zero, periodic, reflect, replicate, odd };

/// Whether a point beyond the edge is the image of one inside, which is read instead.
HALOGEN_FUNCTION constexpr bool has_images(Edge edge) { return edge != Edge::zero && edge != Edge::periodic; }

/// Whether the image is that of a mirror at the last point, whose value a reader takes as it is or, odd, with the other
/// sign.
HALOGEN_FUNCTION constexpr bool mirrors(Edge edge) { return edge == Edge::reflect || edge == Edge::odd; }

/// That point, of a field of `extent` points: at most extent - 1 beyond where it mirrors.
HALOGEN_FUNCTION constexpr index_t image_of(Edge edge, index_t point, index_t extent) {
  const index_t last = extent - 1;
  if (point < 0) return mirrors(edge) ? -point : 0;
  if (point > last) return mirrors(edge) ? 2 * last - point : last;
  return point;
}

/// Base of what follows; not of namespace detail, where calls on fields would then look for functions.
template <Edge Kind>
struct EdgeIs {
  static constexpr Edge edge = Kind;
  static constexpr bool periodic = Kind == Edge::periodic;
  static constexpr double value = 0;  ///< what stands beyond an Edge::zero
  static constexpr bool is_constant = false;
};

/// Beyond the edge stands 0 (after the reader's prologue, as in PyTorch's zero padding).
struct Zero : EdgeIs<Edge::zero> {};

/// Beyond the edge the field goes on at its other end: longitude. PyTorch's padding_mode='circular'.
struct Periodic : EdgeIs<Edge::periodic> {};

/// Beyond the edge stands the mirror image, about the last point: u(-i) = u(i). PyTorch's padding_mode='reflect'.
struct Reflect : EdgeIs<Edge::reflect> {};

/// Beyond the edge stands the last point: no gradient across it. PyTorch's padding_mode='replicate'.
struct ReplicateEdge : EdgeIs<Edge::replicate> {};

/// Beyond the edge stands the mirror image about the last point with the other sign: u(-i) = -u(i). A wall on which u
/// is 0, for differences of any order: the first and the last point lie on it and hold 0. Of expressions, not of
/// layers.
struct Odd : EdgeIs<Edge::odd> {};

/// Beyond the edge stands Numerator / Denominator: in layers after the reader's prologue, as 0 of Zero.
template <int Numerator, int Denominator = 1>
struct ConstantEdge : EdgeIs<Edge::zero> {
  static_assert(Denominator > 0, "a ConstantEdge has a positive denominator");
  static constexpr double value = static_cast<double>(Numerator) / Denominator;
  static constexpr bool is_constant = true;
};

namespace detail {

/// Boundaries of expressions alone: the readers of layers look points up and turn no sign.
template <class B>
inline constexpr bool is_of_expressions = B::edge == Edge::odd;

template <class Why>
constexpr int layer_has(std::true_type) {
  return 0;
}
template <class Why>
constexpr int layer_has(std::false_type) = delete;

}  // namespace detail

/// One boundary per spatial dimension: Boundary<Zero, Periodic> is height, width; three are depth, height, width.
template <class... Edges>
struct Boundary {
  using checked = decltype(detail::layer_has<why::boundary_of_expressions<Edges...>>(
      std::bool_constant<!(detail::is_of_expressions<Edges> || ...)>{}));
  static constexpr int dimensions = static_cast<int>(sizeof...(Edges));
  static constexpr bool periodic[dimensions] = {Edges::periodic...};
};

}  // namespace halogen
