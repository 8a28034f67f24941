// Nodes that move or bound what is read: shift, with_boundary, global_index.
#pragma once

#include <algorithm>
#include <tuple>

#include "halogen/expr/expression.hpp"

namespace halogen {
namespace detail {

template <class Row>
struct ShiftedRow {
  Row inner;
  index_t offset;
  KOKKOS_FUNCTION auto operator()(index_t x) const { return inner(x + offset); }
};

template <class Row, bool Checked>
struct BoundedRow {
  Row inner;
  bool alive;  ///< the row lies inside in all dimensions but the last
  index_t begin, end;
  KOKKOS_FUNCTION auto operator()(index_t x) const {
    if constexpr (Checked) {
      using T = decltype(inner(x));
      return alive && x >= begin && x < end ? inner(x) : T(0);
    } else {
      return inner(x);
    }
  }
};

template <class B, int Dim, int Offset, int Rank>
struct BoundShift {
  B inner;
  template <bool Checked>
  KOKKOS_FUNCTION auto row(Position at) const {
    constexpr bool last = Dim + 1 == Rank;
    if constexpr (!last) at[Dim] += Offset;
    return make(inner.template row<Checked>(at), last ? Offset : 0);
  }
  template <class Row>
  KOKKOS_FUNCTION static ShiftedRow<Row> make(Row row, index_t offset) {
    return {row, offset};
  }
};

template <class B, bool... Periodic>
struct BoundBounded {
  static constexpr int rank = sizeof...(Periodic);
  B inner;
  index_t extent[rank];
  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    constexpr bool repeats[rank] = {Periodic...};
    bool alive = true;
    if constexpr (Checked)
      for (int d = 0; d + 1 < rank; ++d) alive = alive && (repeats[d] || (at[d] >= 0 && at[d] < extent[d]));
    constexpr index_t far = index_t{1} << 60;
    return make<Checked>(inner.template row<Checked>(at), alive, repeats[rank - 1] ? -far : 0,
                         repeats[rank - 1] ? far : extent[rank - 1]);
  }
  template <bool Checked, class Row>
  KOKKOS_FUNCTION static BoundedRow<Row, Checked> make(Row row, bool alive, index_t begin, index_t end) {
    return {row, alive, begin, end};
  }
};

template <int Dim, int Rank>
struct BoundIndex {
  struct Row {
    index_t outer;
    KOKKOS_FUNCTION index_t operator()(index_t x) const { return Dim + 1 == Rank ? x : outer; }
  };
  template <bool Checked>
  KOKKOS_FUNCTION Row row(const Position& at) const {
    return {at[Dim]};
  }
};

}  // namespace detail

/// E at index + Offset of dimension Dim.
template <int Dim, int Offset, class E>
struct Shift : ExpressionNode<typename E::value_type, typename E::placed> {
  E inner;
  explicit Shift(E e) : inner(std::move(e)) {}

  auto bind() const { return detail::BoundShift<decltype(inner.bind()), Dim, Offset, E::placed::rank>{inner.bind()}; }

  template <class Visit>
  void each_leaf(Offsets shift, const Edges& edges, Visit&& visit) const {
    shift[Dim] += Offset;
    inner.each_leaf(shift, edges, visit);
  }
};

/// E inside the field; beyond its ends 0 (Zero) or the other end (Periodic), one Boundary per dimension.
template <class E, class... Boundaries>
struct Bounded : ExpressionNode<typename E::value_type, typename E::placed> {
  static constexpr int rank = sizeof...(Boundaries);
  static constexpr std::array<bool, rank> periodic{Boundaries::periodic...};
  E inner;
  std::array<index_t, rank> extent{};  ///< of the field that the boundary closes

  explicit Bounded(E e) : inner(std::move(e)) {
    inner.each_leaf({}, {}, [&](const auto& field, const Offsets&, const Edges&) {
      for (int d = 0; d < rank; ++d) extent[static_cast<std::size_t>(d)] = field.extent(d);
    });
  }
  Bounded(E e, const std::array<index_t, rank>& extents) : inner(std::move(e)), extent(extents) {}

  auto bind() const {
    detail::BoundBounded<decltype(inner.bind()), Boundaries::periodic...> bound{inner.bind(), {}};
    for (std::size_t d = 0; d < rank; ++d) bound.extent[d] = extent[d];
    return bound;
  }

  template <class Visit>
  void each_leaf(const Offsets& shift, Edges edges, Visit&& visit) const {
    for (std::size_t d = 0; d < rank; ++d) {
      edges.periodic[d] = periodic[d];
      if (periodic[d]) continue;
      edges.lo[d] = std::max(edges.lo[d], -shift[d]);
      edges.hi[d] = std::max(edges.hi[d], shift[d]);
    }
    inner.each_leaf(shift, edges, visit);
  }
};

/// The global index along Dim, as index_t.
template <int Dim, class Where>
struct GlobalIndex : ExpressionNode<index_t, Where> {
  detail::BoundIndex<Dim, Where::rank> bind() const { return {}; }
  template <class Visit>
  void each_leaf(const Offsets&, const Edges&, Visit&&) const {}
};

namespace detail {
template <class Field, std::size_t... D>
auto zero_bounded(const Field& field, std::index_sequence<D...>) {
  return Bounded<FieldLeaf<Field>, std::enable_if_t<(D >= 0), Zero>...>(FieldLeaf<Field>{{}, field});
}
}  // namespace detail

/// A field read on its own has Zero beyond its ends.
template <class Field>
  requires is_sharded<Field>
auto as_expression(const Field& field) {
  return detail::zero_bounded(field, std::make_index_sequence<Field::rank>{});
}
template <Expression E>
E as_expression(const E& expression) {
  return expression;
}
template <class T>
  requires std::is_arithmetic_v<T>
Constant<T> as_expression(T value) {
  return Constant<T>(value);
}

/// The node that an operand becomes.
template <class X>
using expression_of = decltype(as_expression(std::declval<const X&>()));

/// u at index + Offset of dimension Dim: shift<0, 1>(u) reads the next row. Emits nothing by itself; the expression's
/// assignment exchanges the hull of all shifts, once per field.
template <int Dim, int Offset, FieldOperand X>
  requires(Dim >= 0 && Dim < expression_of<X>::placed::rank)
auto shift(const X& x) {
  using E = expression_of<X>;
  return Shift<Dim, Offset, E>(as_expression(x));
}
template <int Dim, int Offset, FieldOperand X, class Why = why::no_such_dimension<Dim, expression_of<X>::placed::rank>>
  requires(Dim < 0 || Dim >= expression_of<X>::placed::rank)
void shift(const X& x) = delete;

/// The global index along Dim at each point of u's grid: Coriolis and cosine terms need no array.
template <int Dim, FieldOperand X>
  requires(Dim >= 0 && Dim < expression_of<X>::placed::rank)
auto global_index(const X&) {
  return GlobalIndex<Dim, typename expression_of<X>::placed>{};
}

/// with_boundary<Zero, Periodic>(u): what lies beyond u's ends, one per dimension.
template <class... Boundaries, class X>
  requires is_sharded<X> && (sizeof...(Boundaries) == X::rank)
auto with_boundary(const X& x) {
  return Bounded<FieldLeaf<X>, Boundaries...>(FieldLeaf<X>{{}, x});
}
template <class... Boundaries, Expression X>
  requires(sizeof...(Boundaries) == X::placed::rank)
auto with_boundary(const X& x) {
  return Bounded<X, Boundaries...>(x);
}

}  // namespace halogen
