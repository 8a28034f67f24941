// The array language: expressions over Sharded fields. Operators build types; assignment runs one fused kernel.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "halogen/core/why.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/stencil/boundary.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {

/// Every node derives from Node<Self, value type, placed> and has
///   bind()                     -> what a kernel evaluates: row<Checked>(outer position) gives x -> value
///   each_leaf(shift, edges, visit) -> visit(field, shift, edges) for every field it reads, at its total shift
/// Checked rows ask boundaries at every point, unchecked ones are for points whose reads all lie inside the field.
struct NotPlaced {};

/// Where an expression lives: mesh type, dimensions, and one placement code per mesh dimension.
template <class MeshType, int Rank, int... Codes>
struct Placed {
  static constexpr int rank = Rank;
  static constexpr std::array<int, sizeof...(Codes)> codes{Codes...};
};

template <class T, class Where>
struct ExpressionNode {
  using expression_tag = void;
  using value_type = T;
  using placed = Where;
};

template <class X>
concept Expression = requires { typename X::expression_tag; };
template <class X>
concept FieldOperand = Expression<X> || is_sharded<X>;
template <class X>
concept Operand = FieldOperand<X> || std::is_arithmetic_v<X>;

/// Largest rank of a field, for index arrays in kernels.
inline constexpr int max_rank = 5;
using Position = Kokkos::Array<index_t, max_rank>;
using Offsets = std::array<index_t, max_rank>;

/// What lies beyond a read: the innermost boundary, and how far reads reach over edges that some boundary checks.
struct Edges {
  std::array<bool, max_rank> periodic{};
  Offsets lo{}, hi{};
};

namespace detail {

/// First is kept where the other is NotPlaced or equal; otherwise there is no common place.
struct Conflict {};
template <class A, class B>
struct join_two {
  using type = Conflict;
};
template <class A>
struct join_two<A, A> {
  using type = A;
};
template <class A>
  requires(!std::is_same_v<A, NotPlaced>)
struct join_two<A, NotPlaced> {
  using type = A;
};
template <class A>
  requires(!std::is_same_v<A, NotPlaced>)
struct join_two<NotPlaced, A> {
  using type = A;
};

template <class... P>
struct join {
  using type = NotPlaced;
};
template <class P, class... Rest>
struct join<P, Rest...> {
  using type = typename join_two<P, typename join<Rest...>::type>::type;
};

}  // namespace detail

namespace detail {

/// Where x = 0 of the row at `at` would stand; rows are contiguous.
template <class T, int Rank>
KOKKOS_FUNCTION T* row_of(const StridedView<T, Rank>& view, const Position& at) {
  index_t offset = -view.origin[Rank - 1];
  for (int d = 0; d + 1 < Rank; ++d) offset += (at[d] - view.origin[d]) * view.stride[d];
  return view.data + offset;
}

// What kernels evaluate carries numbers in its type, never a field's or a mesh's: long names cost minutes.
template <class T, int Rank>
struct BoundField {
  StridedView<T, Rank> view;

  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    return [points = static_cast<const T*>(row_of(view, at))](index_t x) { return points[x]; };
  }
};

template <class T>
struct BoundConstant {
  T value;
  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position&) const {
    return [v = value](index_t) { return v; };
  }
};

}  // namespace detail

/// One field as the expression reads it.
template <class Field>
struct FieldLeaf;
template <class TensorType, class MeshType, class... P>
struct FieldLeaf<Sharded<TensorType, MeshType, P...>>
    : ExpressionNode<typename TensorType::value_type, Placed<MeshType, TensorType::rank, placement_code<P>...>> {
  using Field = Sharded<TensorType, MeshType, P...>;
  using T = typename TensorType::value_type;
  static constexpr int rank = TensorType::rank;
  static_assert(rank <= max_rank, "expressions take fields of at most five dimensions");
  static_assert(((placement_code<P> != partial_code) && ...),
                "a Partial field is a sum that is still due: all_reduce it before it is read");

  Field field;

  detail::BoundField<T, rank> bind() const { return {detail::strided_view(field)}; }

  template <class Visit>
  void each_leaf(const Offsets& shift, const Edges& edges, Visit&& visit) const {
    visit(field, shift, edges);
  }
};

/// The same number everywhere.
template <class T>
struct Constant : ExpressionNode<T, NotPlaced> {
  T value;
  explicit Constant(T v) : value(v) {}

  detail::BoundConstant<T> bind() const { return {value}; }
  template <class Visit>
  void each_leaf(const Offsets&, const Edges&, Visit&&) const {}
};

}  // namespace halogen
