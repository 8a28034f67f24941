// Reverse mode over expressions: the gradient of a sum or mean with respect to a field is again one fused expression.
//
// A variable v read at total shift S along a path of partial derivatives P (all as seen from the point i where the
// sum is taken) contributes P(j - S) to dv(j): a gather, with the boundary that v was read with, so that the adjoint
// of a halo exchange is the halo exchange of its operands, wider by S. No tape, no halo_reduce.
#pragma once

#include <tuple>

#include "halogen/expr/reduction.hpp"

namespace halogen {

/// The Index-th argument of a function that is differentiated.
template <int Index, class Field>
struct VariableLeaf : FieldLeaf<Field> {
  static constexpr int index = Index;
};

/// Read on its own, a variable has Zero beyond its ends, as its field.
template <int Index, class Field>
auto as_expression(const VariableLeaf<Index, Field>& variable) {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return Bounded<VariableLeaf<Index, Field>, std::enable_if_t<(D >= 0), Zero>...>(variable);
  }(std::make_index_sequence<Field::rank>{});
}

namespace detail {

/// One number at every point of a grid.
template <class T, class Where>
struct Filled : ExpressionNode<T, Where> {
  T value;
  explicit Filled(T v) : value(v) {}
  auto bind() const { return BoundConstant<T>{value}; }
  template <class Visit>
  void each_leaf(const Offsets&, const Edges&, Visit&&) const {}
};

/// E at index + S.
template <int D, int... S, class E>
auto shifted(const E& e, std::integer_sequence<int, S...> all) {
  if constexpr (D == sizeof...(S)) {
    return e;
  } else {
    constexpr int offsets[] = {S...};
    if constexpr (offsets[D] == 0)
      return shifted<D + 1>(e, all);
    else
      return shifted<D + 1>(Shift<D, offsets[D], E>(e), all);
  }
}

template <int Dim, int Offset, int... S, std::size_t... D>
auto add_offset(std::integer_sequence<int, S...>, std::index_sequence<D...>) {
  return std::integer_sequence<int, (static_cast<int>(D) == Dim ? S + Offset : S)...>{};
}

template <int... S>
constexpr auto negated(std::integer_sequence<int, S...>) {
  return std::integer_sequence<int, -S...>{};
}
template <int... S>
inline constexpr bool is_zero = ((S == 0) && ...);

// -- an expression whose root position may be a periodic image: reads that no shift moves across an edge wrap --------
template <class... B>
struct Edge {};  // the boundaries of the variable

template <class Mine, class Term, int S>
struct wrapped {
  static_assert(
      !Term::periodic || Mine::periodic || S == 0,
      "gradient through shifts of fields with different boundaries in one dimension: give all operands of the "
      "expression the variable's boundary");
  using type = std::conditional_t<Term::periodic, Periodic, Mine>;
};

template <class E, class... T, int... S>
auto wrap(const E& e, Edge<T...>, std::integer_sequence<int, S...>) {
  return e;
}
template <class E, class... B, class... T, int... S>
auto wrap(const Bounded<E, B...>& e, Edge<T...>, std::integer_sequence<int, S...>) {
  return Bounded<E, typename wrapped<B, T, S>::type...>(e.inner, e.extent);
}
template <int Dim, int Offset, class E, class... T, int... S>
auto wrap(const Shift<Dim, Offset, E>& e, Edge<T...> edge, std::integer_sequence<int, S...> shift) {
  auto inner = wrap(e.inner, edge, add_offset<Dim, Offset>(shift, std::make_index_sequence<sizeof...(S)>{}));
  return Shift<Dim, Offset, decltype(inner)>(inner);
}
template <class F, class... A, class... T, int... S>
auto wrap(const Pointwise<F, A...>& e, Edge<T...> edge, std::integer_sequence<int, S...> shift) {
  return std::apply(
      [&](const A&... a) { return Pointwise<F, decltype(wrap(a, edge, shift))...>(e.f, wrap(a, edge, shift)...); },
      e.args);
}

/// Terms of d(sum)/d(variable Index) from E read at shift S along path P, as a tuple of expressions.
template <int Index, class E, class P, int... S>
auto terms(const E&, const P&, std::integer_sequence<int, S...>) {
  return std::tuple<>{};
}
template <int Index, class Op, class E, bool Mean, class P, int... S>
auto terms(const Reduction<Op, E, Mean>& reduction, const P& path, std::integer_sequence<int, S...> shift) {
  static_assert(std::tuple_size_v<decltype(terms<Index>(reduction.inner, path, shift))> == 0,
                "gradient_through_reduction: the variable stands inside a reduction within the expression");
  return std::tuple<>{};
}
template <int Index, class Field, class... B, class P, int... S>
auto terms(const Bounded<VariableLeaf<Index, Field>, B...>& e, const P& path, std::integer_sequence<int, S...> shift) {
  if constexpr (is_zero<S...>) {
    return std::make_tuple(path);
  } else {
    const auto zero = std::integer_sequence<int, (S * 0)...>{};
    auto closed = wrap(path, Edge<B...>{}, zero);
    return std::make_tuple(shifted<0>(Bounded<decltype(closed), B...>(closed, e.extent), negated(shift)));
  }
}
template <int Index, class E, class... B, class P, int... S>
auto terms(const Bounded<E, B...>& e, const P& path, std::integer_sequence<int, S...> shift) {
  auto inner = terms<Index>(e.inner, path, shift);
  static_assert(is_zero<S...> || std::tuple_size_v<decltype(inner)> == 0,
                "gradient through a shift of with_boundary(expression): put the boundary on the field instead");
  return inner;
}
template <int Index, int Dim, int Offset, class E, class P, int... S>
auto terms(const Shift<Dim, Offset, E>& e, const P& path, std::integer_sequence<int, S...> shift) {
  return terms<Index>(e.inner, path, add_offset<Dim, Offset>(shift, std::make_index_sequence<sizeof...(S)>{}));
}

template <int Index, int Argument, class F, class... A, class P, int... S>
auto argument_terms(const Pointwise<F, A...>& e, const P& path, std::integer_sequence<int, S...> shift) {
  const auto partial = std::apply([](const A&... a) { return F::template partial<Argument>(a...); }, e.args);
  if constexpr (std::is_same_v<std::decay_t<decltype(partial)>, NoPartial>) {
    return std::tuple<>{};
  } else if constexpr (std::is_arithmetic_v<std::decay_t<decltype(partial)>>) {
    return terms<Index>(std::get<Argument>(e.args), path * partial, shift);
  } else {
    return terms<Index>(std::get<Argument>(e.args), path * shifted<0>(partial, shift), shift);
  }
}
template <int Index, class F, class... A, class P, int... S>
auto terms(const Pointwise<F, A...>& e, const P& path, std::integer_sequence<int, S...> shift) {
  return [&]<std::size_t... Argument>(std::index_sequence<Argument...>) {
    return std::tuple_cat(argument_terms<Index, static_cast<int>(Argument)>(e, path, shift)...);
  }(std::make_index_sequence<sizeof...(A)>{});
}

/// The gradient field of one variable.
template <int Index, class Op, class E, bool Mean, class Field>
Field gradient_of(const Reduction<Op, E, Mean>& loss, const Field& variable) {
  static_assert(std::is_same_v<Op, SumOp>, "a gradient is taken of a sum or a mean");
  using T = typename Field::value_type;
  double scale = 1;
  if (Mean)
    for (int d = 0; d < Field::rank; ++d) scale /= static_cast<double>(variable.extent(d));
  using Where = typename FieldLeaf<Field>::placed;
  const auto all = [&]<std::size_t... D>(std::index_sequence<D...>) {
    return terms<Index>(loss.inner, Filled<T, Where>(static_cast<T>(scale)),
                        std::integer_sequence<int, (static_cast<int>(D) * 0)...>{});
  }(std::make_index_sequence<Field::rank>{});
  Field gradient(variable.mesh(), variable.cuts());
  std::apply(
      [&](const auto&... term) {
        if constexpr (sizeof...(term) > 0) gradient = (term + ...);
      },
      all);
  return gradient;
}

}  // namespace detail

/// (value, gradient with respect to each field): f takes the fields as variables and returns a sum or a mean.
/// Collective; each gradient is placed as its field and costs one kernel and one halo exchange per field it reads.
template <class F, class... Fields>
  requires(is_sharded<Fields> && ...)
auto value_and_grad_of(F& f, const Fields&... fields) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto loss = f(VariableLeaf<static_cast<int>(I), Fields>{{{}, fields}}...);
    static_assert(is_reduction<std::decay_t<decltype(loss)>>,
                  "gradient_needs_a_scalar: return a sum(...) or mean(...) of an expression");
    return std::tuple(static_cast<double>(loss.item()), detail::gradient_of<static_cast<int>(I)>(loss, fields)...);
  }(std::make_index_sequence<sizeof...(Fields)>{});
}

}  // namespace halogen
