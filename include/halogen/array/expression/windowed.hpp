// Nodes that shift or bound reads: shift, with_boundary, global_index.
#pragma once

#include <algorithm>

#include "halogen/array/expression/operands.hpp"
#include "halogen/array/expression/windowed_rows.hpp"

namespace halogen {
/// E at index + Offset of dimension Dim.
template <int Dim, int Offset, class E>
struct Shift : ExpressionNode<typename E::value_type, typename E::placed> {
  static constexpr bool is_transparent = true;
  E inner;
  explicit Shift(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  template <class Other>
  auto with_operands(Other other) const {
    return Shift<Dim, Offset, Other>(std::move(other));
  }
  void sign(detail::Signature&) const {}

  index_t extent(int d) const { return inner.extent(d); }
  std::optional<Cut> cut(int d) const { return inner.cut(d); }
  auto bind(const Offsets& image) const {
    return detail::BoundShift<decltype(inner.bind(image)), Dim, Offset>{inner.bind(image)};
  }
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    access.offset[Dim] += Offset * access.divisor[Dim];
    inner.each_leaf(access, visit);
  }
};

/// E inside its grid. Beyond its ends it is 0 (Zero), a number (ConstantEdge), the other end (Periodic), the mirror
/// image (Reflect), the mirror image with the other sign (Odd) or the last point (ReplicateEdge). One boundary per
/// dimension.
template <class E, class... Boundaries>
struct Bounded : ExpressionNode<typename E::value_type, typename E::placed> {
  static constexpr int rank = sizeof...(Boundaries);
  static_assert(!std::is_unsigned_v<typename E::value_type> || ((Boundaries::edge != Edge::odd) && ...),
                "an Odd boundary takes the other sign, which unsigned values do not have");
  static constexpr bool is_transparent = true;
  E inner;

  explicit Bounded(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  template <class Other>
  auto with_operands(Other other) const {
    return Bounded<Other, Boundaries...>(std::move(other));
  }
  void sign(detail::Signature&) const {}

  index_t extent(int d) const { return inner.extent(d); }
  std::optional<Cut> cut(int d) const { return inner.cut(d); }
  auto bind(const Offsets& image) const {
    detail::BoundBounded<decltype(inner.bind(image)), Boundaries::edge...> bound{inner.bind(image), {}, {}};
    for (int d = 0; d < rank; ++d) {
      bound.begin[d] = is_open(d) ? -Access::far : -image[static_cast<std::size_t>(d)];
      bound.end[d] = is_open(d) ? Access::far : inner.extent(d) - image[static_cast<std::size_t>(d)];
    }
    if constexpr (((Boundaries::value != 0) || ...))
      return filled(bound);
    else
      return bound;
  }
  /// The same node with other boundaries.
  template <class... Others>
  auto with_boundaries() const {
    return Bounded<E, Others...>(inner);
  }
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    constexpr Edge edges[] = {Boundaries::edge...};
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      access.edge[i] = is_open(d) && has_images(edges[d]) ? Edge::zero : edges[d];
      access.extent[i] = inner.extent(d);
      if (edges[d] == Edge::periodic || is_open(d)) continue;
      if (has_images(edges[d]))
        access.check_outside(d, inner.extent(d));
      else
        access.keep_inside(d, inner.extent(d));
    }
    inner.each_leaf(access, visit);
  }

 private:
  template <class Bound>
  static auto filled(const Bound& bound) {
    using T = typename E::value_type;
    static_assert(
        ((!std::is_integral_v<T> || Boundaries::value == static_cast<double>(static_cast<T>(Boundaries::value))) &&
         ...),
        "a ConstantEdge of a field of integers is an integer");
    detail::BoundFilled<Bound, T, rank> result{
        bound, {static_cast<T>(Boundaries::value)...}, {(Boundaries::edge == Edge::zero)...}, {}, {}};
    for (int d = 0; d < rank; ++d) result.begin[d] = bound.begin[d], result.end[d] = bound.end[d];
    return result;
  }
  /// Whether E is the same at all indices along d, so that it has no ends.
  bool is_open(int d) const { return inner.extent(d) < 0; }
};

/// The global index along Dim, as index_t, at every point of a grid.
template <int Dim, class Where>
struct GlobalIndex : ExpressionNode<index_t, Where> {
  std::array<index_t, max_rank> extents;
  explicit GlobalIndex(const std::array<index_t, max_rank>& of) : extents(of) {}

  template <class F>
  auto operands(const F& f) const {
    return f();
  }

  index_t extent(int d) const { return extents[static_cast<std::size_t>(d)]; }
  detail::BoundIndex<Dim> bind(const Offsets& image) const { return {image[Dim]}; }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    visit(access);
  }
};

namespace detail {

/// A node with its own grid reads Zero beyond its ends by default.
template <class E, std::size_t... D>
auto zero_bounded(E e, std::index_sequence<D...>) {
  return Bounded<E, std::enable_if_t<(D >= 0), Zero>...>(std::move(e));
}
template <class E>
auto zero_bounded(E e) {
  return zero_bounded(std::move(e), std::make_index_sequence<E::placed::rank>{});
}

/// A node that is a field, or that is stored as a field before it is read.
template <class E>
inline constexpr bool is_stored = requires(const E& e) { e.field; } || requires { typename E::stage_tag; };

template <class E>
constexpr bool find_repeated();
/// Whether a part of E is stored that E could compute itself (repeated_parts.hpp). Such a part can be read only at its
/// own points: beyond its ends it is 0, and not the value of the expression there.
template <class E>
inline constexpr bool has_repeated = find_repeated<E>();
/// A node that the library itself has stored.
template <class E>
constexpr bool is_repeated_part() {
  if constexpr (requires { E::is_repeated_part; })
    return E::is_repeated_part;
  else
    return false;
}
template <class... E>
constexpr bool any_repeated_part(TypeList<E...>) {
  return (is_repeated_part<E>() || ...);
}
template <class... E>
constexpr bool any_repeated(TypeList<E...> operands) {
  return any_repeated_part(operands) || (has_repeated<E> || ...);
}
template <class E>
constexpr bool find_repeated() {
  if constexpr (is_transparent<E>)
    return any_repeated(operands_of<E>{});
  else
    return false;
}
template <class E>
auto without_repeated(const E& e);

template <int Dim, int Offset, class E>
auto shifted_along(const E& e) {
  if constexpr (has_repeated<E>)
    return shifted_along<Dim, Offset>(without_repeated(e));
  else
    return Shift<Dim, Offset, E>(e);
}

/// E at index + S, one offset per dimension.
template <int D, int... S, class E>
auto shifted(const E& e, std::integer_sequence<int, S...> all) {
  if constexpr (D == sizeof...(S)) {
    return e;
  } else {
    constexpr int offsets[] = {S...};
    if constexpr (offsets[D] == 0)
      return shifted<D + 1>(e, all);
    else
      return shifted<D + 1>(shifted_along<D, offsets[D]>(e), all);
  }
}

}  // namespace detail

template <class Field>
  requires is_sharded<Field>
auto as_expression(Field field) {
  return detail::zero_bounded(FieldLeaf<Field>(std::move(field)));
}
template <Expression E>
E as_expression(E expression) {
  return expression;
}
template <GridNode E>
auto as_expression(E node) {
  return detail::zero_bounded(std::move(node));
}
template <PartialOperand Product>
auto as_expression(const Product& product) {
  return as_expression(typename Product::Result(product));
}
template <class T>
  requires std::is_arithmetic_v<T>
Constant<T> as_expression(T value) {
  return Constant<T>(value);
}

/// The node that an operand becomes.
template <class X>
using expression_of = decltype(as_expression(std::declval<const X&>()));
template <class X>
using placed_at = typename expression_of<X>::placed;

/// u at index + Offset of dimension Dim: shift<0, 1>(u) reads the next row. A shift itself sends nothing. The
/// assignment of the expression exchanges the hull of all shifts, once per field.
template <int Dim, int Offset, FieldOperand X>
  requires(Dim >= 0 && Dim < placed_at<X>::rank)
auto shift(X x) {
  return detail::shifted_along<Dim, Offset>(as_expression(std::move(x)));
}
template <int Dim, int Offset, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(Dim < 0 || Dim >= placed_at<X>::rank)
void shift(X x) = delete;

/// The global index along Dim at each point of u's grid: Coriolis and cosine terms need no array.
template <int Dim, FieldOperand X>
  requires(Dim >= 0 && Dim < placed_at<X>::rank)
auto global_index(const X& x) {
  std::array<index_t, max_rank> extents{};
  const auto expression = as_expression(x);
  for (int d = 0; d < max_rank; ++d)
    extents[static_cast<std::size_t>(d)] = d < placed_at<X>::rank ? expression.extent(d) : -1;
  return GlobalIndex<Dim, placed_at<X>>(extents);
}

/// with_boundary<Zero, Periodic>(u) says what is beyond u's ends, one boundary per dimension. The others are Reflect
/// (u(-i) = u(i)), Odd (u(-i) = -u(i): a wall where u is 0), ReplicateEdge (u(-i) = u(0): no gradient across the edge)
/// and ConstantEdge<5>.
template <class... Boundaries, class X>
  requires(FieldOperand<X> && !Expression<X> && sizeof...(Boundaries) == placed_at<X>::rank)
auto with_boundary(X x) {
  return Bounded<FieldLeaf<X>, Boundaries...>(FieldLeaf<X>(std::move(x), "with_boundary"));
}
template <class... Boundaries, Expression X>
  requires(sizeof...(Boundaries) == X::placed::rank)
auto with_boundary(X x) {
  static_assert(detail::is_stored<X> || ((Boundaries::edge == Edge::zero) && ...),
                "a boundary that reads other points belongs to a field, not to an expression: give it to the "
                "expression's fields");
  if constexpr (GridNode<X>)  // the node alone: x may be more, as what net(image) returns
    return as_expression(std::move(x)).template with_boundaries<Boundaries...>();
  else
    return Bounded<X, Boundaries...>(std::move(x));
}

}  // namespace halogen
