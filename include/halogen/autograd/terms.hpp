// What each leaf of a fused expression owes to a cotangent.
//
// A variable v read at total shift S along a path of partial derivatives P (all as seen from the point i where the
// cotangent stands) contributes P(j - S) to dv(j): a gather, with the boundary that v was read with, so that the
// adjoint of a halo exchange is the halo exchange of its operands, wider by S. No tape, no halo_reduce. A stage, or a
// node with a grid of its own, is such a leaf too; what it owes to its own operands follows from its cotangent
// (backward.hpp).
#pragma once

#include <tuple>

#include "halogen/autograd/folded.hpp"
#include "halogen/autograd/variable.hpp"

namespace halogen::detail {

template <int Index, class FieldType, class E>
struct VariableTerm {
  static constexpr int index = Index;
  using Field = FieldType;
  E term;
};
template <class Node, class E>
struct NodeTerm {
  using node_type = Node;
  Node node;
  E term;
};

template <int... S>
using Total = std::integer_sequence<int, S...>;
template <int... S>
constexpr Total<-S...> negated(Total<S...>) {
  return {};
}
template <int Dim, int Offset, int... S>
auto add_offset(Total<S...>) {
  return []<std::size_t... D>(std::index_sequence<D...>) {
    return Total<(static_cast<int>(D) == Dim ? S + Offset : S)...>{};
  }(std::make_index_sequence<sizeof...(S)>{});
}

template <class... B>
struct Ends {};  // the boundaries of the variable

// -- a path whose root position may be a periodic image: reads that no shift moves across an edge wrap ----------------
// Only where everything it reads continues periodically; else the path is stored first and read as a field.
template <class E, class T, class S>
inline constexpr bool wraps = std::is_same_v<typename E::placed, NotPlaced>;
template <class C, class Where, class T, class S>
inline constexpr bool wraps<Filled<C, Where>, T, S> = true;
template <class E, class... B, class... T, int... S>
inline constexpr bool wraps<Bounded<E, B...>, Ends<T...>, Total<S...>> =
    is_stored<E> && ((!T::periodic || B::periodic || S == 0) && ...);
template <int Dim, int Offset, class E, class T, class S>
inline constexpr bool wraps<Shift<Dim, Offset, E>, T, S> = wraps<E, T, decltype(add_offset<Dim, Offset>(S{}))>;
template <class F, class... A, class T, class S>
inline constexpr bool wraps<Pointwise<F, A...>, T, S> = (wraps<A, T, S> && ...);

template <class E, class... T, int... S>
auto wrap(const E& e, Ends<T...>, Total<S...>) {
  return e;
}
template <class E, class... B, class... T, int... S>
auto wrap(const Bounded<E, B...>& e, Ends<T...>, Total<S...>) {
  return Bounded<E, std::conditional_t<T::periodic, Periodic, B>...>(e.inner);
}
template <int Dim, int Offset, class E, class... T, int... S>
auto wrap(const Shift<Dim, Offset, E>& e, Ends<T...> edge, Total<S...> shift) {
  auto inner = wrap(e.inner, edge, add_offset<Dim, Offset>(shift));
  return Shift<Dim, Offset, decltype(inner)>(inner);
}
template <class F, class... A, class... T, int... S>
auto wrap(const Pointwise<F, A...>& e, Ends<T...> edge, Total<S...> shift) {
  return e.args.apply(
      [&](const A&... a) { return Pointwise<F, decltype(wrap(a, edge, shift))...>(e.f, wrap(a, edge, shift)...); });
}

/// A field of E's values on a grid.
template <class Shape, class E, class T = typename E::value_type>
using CotangentField =
    typename field_of<std::conditional_t<std::is_integral_v<T>, float, T>, typename Shape::placed>::type;

/// Where cotangents stand: a grid's mesh and cuts, and its place as a type.
template <class Where>
struct CotangentGrid {
  using placed = Where;
  using Stored = typename field_of<double, Where>::type;
  static constexpr int rank = Where::rank;
  std::shared_ptr<const typename Stored::Shape> shape;
  index_t extent(int d) const { return shape->extent(d); }
};
template <>
struct CotangentGrid<NotPlaced> {
  static constexpr int rank = 0;
};

template <class Grid, class E>
auto stored_cotangent(const Grid& grid, const E& e) {
  using Field = CotangentField<Grid, E>;
  if constexpr (requires { e.inner.field; }) {  // a field that lies so is not copied: nobody writes into it
    if constexpr (std::is_same_v<std::decay_t<decltype(e.inner.field)>, Field>)
      if (*e.inner.field.shape() == *grid.shape) return e.inner.field;
  }
  return computed<Field>(grid.shape, e);
}

/// P along Dim at index - S, and at the images of points beyond the ends what was read there.
template <int Dim, class Grid, class P, class... B, int... S>
auto folded(const Grid& grid, const P& path, Ends<B...> ends, Total<S...> shift) {
  if constexpr (Dim == sizeof...(S)) {
    return path;
  } else {
    constexpr Edge edges[] = {B::edge...};
    constexpr int offsets[] = {S...};
    if constexpr (has_images(edges[Dim]) && offsets[Dim] != 0)
      return folded<Dim + 1>(grid, Folded<Dim, offsets[Dim], edges[Dim], P>(path, grid.extent(Dim)), ends, shift);
    else
      return folded<Dim + 1>(grid, path, ends, shift);
  }
}

template <class B>
using without_images = std::conditional_t<has_images(B::edge), Zero, B>;
/// What a path, which is a derivative, has beyond the ends: a constant there has none.
template <class B>
using path_end = std::conditional_t<B::periodic, Periodic, Zero>;

/// The path as the variable's grid sees it: at index - S, beyond the ends what the variable's boundary says.
template <class Grid, class P, class... B, int... S>
auto closed(const Grid& grid, const P& path, Ends<B...> edge, Total<S...> shift) {
  if constexpr (((S == 0) && ...)) {
    return path;
  } else if constexpr ((has_images(B::edge) || ...)) {
    const Total<(has_images(B::edge) ? 0 : S)...> rest;
    return folded<0>(grid, closed(grid, path, Ends<without_images<B>...>{}, rest), edge, shift);
  } else {
    constexpr bool crosses = ((B::periodic && S != 0) || ...);
    if constexpr (!crosses) {
      return shifted<0>(Bounded<P, path_end<B>...>(path), negated(shift));
    } else if constexpr (wraps<P, Ends<B...>, Total<(S * 0)...>>) {
      auto wrapped = wrap(path, edge, Total<(S * 0)...>{});
      return shifted<0>(Bounded<decltype(wrapped), path_end<B>...>(wrapped), negated(shift));
    } else {
      const auto field = stored_cotangent(grid, path);
      using Leaf = FieldLeaf<std::decay_t<decltype(field)>>;
      return shifted<0>(Bounded<Leaf, path_end<B>...>(Leaf(field)), negated(shift));
    }
  }
}

/// The partial derivative of a functor: its own partial<I>, or found by dual numbers.
template <class F, int I, class... A>
auto partial_of(const F& f, const A&... a) {
  if constexpr (requires { F::template partial<I>(a...); }) {
    return F::template partial<I>(a...);
  } else if constexpr (std::is_integral_v<typename std::tuple_element_t<I, std::tuple<A...>>::value_type>) {
    return NoPartial{};
  } else {
    using T = std::common_type_t<float, typename A::value_type...>;
    static_assert(std::is_invocable_v<F, dual_argument<T, typename A::value_type>...>,
                  "no_derivative: make the functor's operator() a template of its values' type, or define partial<I>");
    return Pointwise<PartialOf<F, I>, A...>(PartialOf<F, I>{f}, a...);
  }
}

/// A cotangent times a derivative. A cotangent of 0 stays 0 where the derivative is infinite or NaN, because nothing
/// that counts depends on such a point. Chosen: the derivative says which operand a function chose, so 0 stays 0 beside
/// an infinite cotangent too.
template <bool Chosen>
struct ChainRule {
  template <class P, class D>
  HALOGEN_ROW auto operator()(P cotangent, D derivative) const {
    const auto product = cotangent * derivative;
    const bool is_none = cotangent == P(0) || (Chosen && derivative == D(0));
    return is_none ? std::decay_t<decltype(product)>(0) : product;
  }
};
/// Derivatives that are 0 at the points where a function does not choose the operand. A functor may have branches.
template <class Partial>
inline constexpr bool is_chosen = false;
template <class... A>
inline constexpr bool is_chosen<Pointwise<Where, A...>> = true;
template <class F, int I, class... A>
inline constexpr bool is_chosen<Pointwise<PartialOf<F, I>, A...>> = true;

/// The factors of a product that are not 0, and which are 0.
template <class E>
auto factors_beside_zeros(const E& e) {
  return where(e == 0.0f, typename E::value_type(1), e);
}
template <class E>
auto zero_factors(const E& e) {
  return where(e == 0.0f, 1, 0);
}
/// A cotangent of a product times its derivative, the product of all other factors. zeros: how many factors are 0;
/// others: the product of those that are not.
template <class E, class C, class N, class Q>
auto product_of_others(const E& e, const C& cotangent, const N& zeros, const Q& others) {
  const auto derivative = where(e == 0.0f, where(zeros == 1, others, 0.0f), where(zeros == 0, others / e, 0.0f));
  return halogen::apply(ChainRule<true>{}, cotangent, derivative);
}

template <class Grid, class E, class P, int... S>
auto terms(const Grid& grid, const E& e, const P& path, Total<S...> shift);

template <int Argument, class Grid, class F, class... A, class P, int... S>
auto argument_terms(const Grid& grid, const Pointwise<F, A...>& e, const P& path, Total<S...> shift) {
  using Arg = std::tuple_element_t<Argument, std::tuple<A...>>;
  if constexpr (!has_variable<Arg>) {
    return std::tuple<>{};
  } else {
    const Arg& argument = static_cast<const Packed<Argument, Arg>&>(e.args).value;
    const auto partial = e.args.apply([&](const A&... a) { return partial_of<F, Argument>(e.f, a...); });
    using Partial = std::decay_t<decltype(partial)>;
    if constexpr (std::is_same_v<Partial, NoPartial>)
      return std::tuple<>{};
    else if constexpr (std::is_arithmetic_v<Partial>)
      return terms(grid, argument, path * partial, shift);
    else
      return terms(grid, argument, halogen::apply(ChainRule<is_chosen<Partial>>{}, path, shifted<0>(partial, shift)),
                   shift);
  }
}

// One overload per kind of node; each returns a tuple of VariableTerm and NodeTerm.
template <class Grid, class F, class... A, class P, int... S>
auto node_terms(const Grid& grid, const Pointwise<F, A...>& e, const P& path, Total<S...> shift) {
  return [&]<std::size_t... Argument>(std::index_sequence<Argument...>) {
    return std::tuple_cat(argument_terms<static_cast<int>(Argument)>(grid, e, path, shift)...);
  }(std::make_index_sequence<sizeof...(A)>{});
}
template <class Grid, int Dim, int Offset, class E, class P, int... S>
auto node_terms(const Grid& grid, const Shift<Dim, Offset, E>& e, const P& path, Total<S...> shift) {
  return terms(grid, e.inner, path, add_offset<Dim, Offset>(shift));
}
template <class Grid, int Index, class Field, class... B, class P, int... S>
auto node_terms(const Grid& grid, const Bounded<VariableLeaf<Index, Field>, B...>&, const P& path, Total<S...> shift) {
  auto term = closed(grid, path, Ends<B...>{}, shift);
  return std::tuple(VariableTerm<Index, Field, decltype(term)>{term});
}
template <class Grid, class E, class... B, class P, int... S>
auto node_terms(const Grid& grid, const Bounded<E, B...>& e, const P& path, Total<S...> shift) {
  if constexpr (GridNode<E>) {
    auto term = closed(grid, path, Ends<B...>{}, shift);
    return std::tuple(NodeTerm<E, decltype(term)>{e.inner, term});
  } else if constexpr (((S == 0) && ...)) {
    return terms(grid, e.inner, path, shift);
  } else {
    auto term = closed(grid, path, Ends<B...>{}, shift);
    return std::tuple(NodeTerm<Bounded<E, B...>, decltype(term)>{e, term});
  }
}
template <class Grid, class E, int Rank, int... Dims, class P, int... S>
auto node_terms(const Grid&, const Mapped<E, Rank, Dims...>& e, const P& path, Total<S...>) {
  constexpr int shifts[] = {S..., 0};
  if constexpr (((shifts[Dims] == 0) && ...)) {
    return std::tuple(NodeTerm<Mapped<E, Rank, Dims...>, P>{e, path});
  } else {  // what is read at a distance is the operand moved
    auto inner = shifted<0>(e.inner, std::integer_sequence<int, shifts[Dims]...>{});
    using Node = Mapped<decltype(inner), Rank, Dims...>;
    return std::tuple(NodeTerm<Node, P>{Node(inner), path});
  }
}
template <class Grid, class Op, class E, bool Mean, class P, int... S>
auto node_terms(const Grid&, const Reduction<Op, E, Mean>& e, const P& path, Total<S...>) {
  return std::tuple(NodeTerm<Reduction<Op, E, Mean>, P>{e, path});  // the same at every point, shifted or not
}

template <class Grid, class E, class P, int... S>
auto terms(const Grid& grid, const E& e, const P& path, Total<S...> shift) {
  if constexpr (has_variable<E>)
    return node_terms(grid, e, path, shift);
  else
    return std::tuple<>{};
}

/// Sum of the terms of one variable; nothing where there is none.
template <int Index, std::size_t K, class Tuple, class... Sum>
auto sum_of_terms(const Tuple& all, const Sum&... sum) {
  if constexpr (K == std::tuple_size_v<Tuple>) {
    return std::tuple(sum...);
  } else {
    using Term = std::tuple_element_t<K, Tuple>;
    if constexpr (requires { Term::index; }) {
      if constexpr (Term::index == Index)
        return sum_of_terms<Index, K + 1>(all, (sum + ... + std::get<K>(all).term));
      else
        return sum_of_terms<Index, K + 1>(all, sum...);
    } else {
      return sum_of_terms<Index, K + 1>(all, sum...);
    }
  }
}

// Not asked by requires-expressions in the lambdas below: nvcc's device pass finds them false there, and then silently
// omits all kernels after them.
template <class Term>
inline constexpr bool is_node_term = false;
template <class Node, class E>
inline constexpr bool is_node_term<NodeTerm<Node, E>> = true;
template <int Index, class Term>
inline constexpr bool is_term_of = false;
template <int Index, class Field, class E>
inline constexpr bool is_term_of<Index, VariableTerm<Index, Field, E>> = true;
/// A term of such a node, which may stand several times in a region.
template <class Term, class Node>
inline constexpr bool may_repeat = false;
template <class Node, class E>
inline constexpr bool may_repeat<NodeTerm<Node, E>, Node> = requires(const Node& node) { node.identity; };
/// A function of its own: where the lambda below does not call it, nvcc looks up the member all the same.
template <class Node>
bool is_repeated(const Node& node, const Node& other) {
  return node.identity == other.identity;
}

}  // namespace halogen::detail
