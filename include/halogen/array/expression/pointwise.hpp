// Pointwise nodes: a functor of values, applied point by point. The usual functions: functions.hpp.
#pragma once

#include "halogen/array/expression/broadcast.hpp"

namespace halogen {

/// The partial derivative of a function without a gradient, such as a comparison.
struct NoPartial {};

namespace detail {

/// Whether a functor has a gradient: those that say `static constexpr bool has_gradient = false` have none.
template <class F>
constexpr bool functor_has_gradient() {
  if constexpr (requires { F::has_gradient; })
    return F::has_gradient;
  else
    return true;
}
/// The variables on which f(args...) depends so that it has a gradient.
template <class F, class... A>
constexpr VariableSet variables_of_call() {
  if constexpr (!functor_has_gradient<F>() || std::is_integral_v<std::invoke_result_t<F, typename A::value_type...>>)
    return 0;
  else
    return (VariableSet{0} | ... | variables_of<A>);
}

template <std::size_t I, class A>
struct Packed {
  A value;
};
template <class Sequence, class... A>
struct PackOf;
template <std::size_t... I, class... A>
struct PackOf<std::index_sequence<I...>, A...> : Packed<I, A>... {
  template <class F>
  decltype(auto) apply(const F& f) const {
    return f(Packed<I, A>::value...);
  }
  /// f of the rows' values at x.
  template <class F>
  HALOGEN_ROW auto at(const F& f, index_t x) const {
    return f(Packed<I, A>::value(x)...);
  }
  /// make(...) of the rows of all operands.
  template <bool Checked, int Axis, class Make>
  HALOGEN_ROW auto rows(const Make& make, const Position& at) const {
    return make(Packed<I, A>::value.template row<Checked, Axis>(at)...);
  }
};
/// A few values of different types. It is an aggregate, because std::tuple is not device code and costs much more
/// compile time.
template <class... A>
using Pack = PackOf<std::index_sequence_for<A...>, A...>;

/// Whether a row has one value for all x. A functor of such rows only is computed once a row, not once a point.
template <class Row>
inline constexpr bool is_constant_row = false;
template <class T>
inline constexpr bool is_constant_row<ConstantRow<T>> = true;

template <class F, class... Rows>
struct PointwiseRow {
  F f;
  Pack<Rows...> rows;
  HALOGEN_ROW auto operator()(index_t x) const { return rows.at(f, x); }
};

template <class F>
struct MakePointwiseRow {
  const F& f;
  template <class... Rows>
  HALOGEN_ROW auto operator()(const Rows&... rows) const {
    const PointwiseRow<F, Rows...> row{f, {{rows}...}};
    if constexpr ((is_constant_row<Rows> && ...))
      return ConstantRow<decltype(row(0))>{row(0)};
    else
      return row;
  }
};

template <class F, class... Bounds>
struct BoundPointwise {
  F f;
  Pack<Bounds...> args;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    return args.template rows<Checked, Axis>(MakePointwiseRow<F>{f}, at);
  }
};

template <class... Args>
using placed_of = typename join<typename Args::placed...>::type;

/// The common extent of two operands along d, where -1 fits any extent. Throws CollectiveError if they differ.
inline index_t joint_extent(int d, index_t a, index_t b) {
  if (a >= 0 && b >= 0 && a != b)
    throw CollectiveError(
        "operands of one expression have " + std::to_string(a) + " and " + std::to_string(b) + " points in dimension " +
        std::to_string(d) +
        (a == 1 || b == 1
             ? ": give them the same extents, or broadcast the one of 1 point by expand<" + std::to_string(d) + ">(it)"
             : ": give them the same extents"));
  return b >= 0 ? b : a;
}
template <class... E>
index_t common_extent(int d, const E&... expressions) {
  index_t extent = -1;
  ((extent = joint_extent(d, extent, expressions.extent(d))), ...);
  return extent;
}

}  // namespace detail

/// f applied point by point to expressions of one placement. Throws CollectiveError if their extents differ.
template <class F, class... Args>
struct Pointwise
    : ExpressionNode<std::decay_t<std::invoke_result_t<F, typename Args::value_type...>>, detail::placed_of<Args...>> {
  using Base =
      ExpressionNode<std::decay_t<std::invoke_result_t<F, typename Args::value_type...>>, detail::placed_of<Args...>>;
  static constexpr bool is_number = std::is_same_v<typename Base::placed, NotPlaced>;
  static constexpr bool is_transparent = true;
  using functor_type = F;
  static constexpr detail::VariableSet variables = detail::variables_of_call<F, Args...>();
  F f;
  detail::Pack<Args...> args;

  explicit Pointwise(F function, Args... operands) : f(function), args{{std::move(operands)}...} {
    if constexpr (!is_number)
      for (int d = 0; d < Base::placed::rank; ++d) extent(d);
  }

  template <class Use>
  auto operands(const Use& use) const {
    return args.apply(use);
  }
  template <class... Others>
  auto with_operands(Others... others) const {
    return Pointwise<F, Others...>(f, std::move(others)...);
  }
  void sign(detail::Signature&) const
    requires std::is_empty_v<F>
  {}

  index_t extent(int d) const {
    return args.apply([d](const Args&... operands) { return detail::common_extent(d, operands...); });
  }
  std::optional<Cut> cut(int d) const {
    std::optional<Cut> found;
    args.apply([&](const Args&... operands) { ((found ? void() : void(found = operands.cut(d))), ...); });
    return found;
  }
  auto bind(const Offsets& image) const {
    return args.apply([&](const Args&... operands) {
      return detail::BoundPointwise<F, decltype(operands.bind(image))...>{f, {{operands.bind(image)}...}};
    });
  }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    args.apply([&](const Args&... operands) { (operands.each_leaf(access, visit), ...); });
  }

  /// The value of an expression of numbers and reductions only. Collective.
  typename Base::value_type item() const
    requires is_number
  {
    return bind({}).template row<true, -1>(Position{})(0);
  }
  operator typename Base::value_type() const  // NOLINT: norm(u) is a number
    requires is_number
  {
    return item();
  }
};

namespace detail {

template <class... X>
inline constexpr bool any_field = (FieldOperand<X> || ...);

template <class... X>
using joined = typename join<placed_at<X>...>::type;

template <class... X>
concept Joinable = (Operand<X> && ...) && any_field<X...> && !std::is_same_v<joined<X...>, Conflict>;
template <class... X>
concept Unjoinable = (Operand<X> && ...) && any_field<X...> && std::is_same_v<joined<X...>, Conflict>;

/// The why:: tag of two operands that have no common place.
template <class A, class B>
constexpr auto why_not_joined() {
  if constexpr (std::is_same_v<A, Conflict> || std::is_same_v<B, Conflict> || std::is_same_v<A, NotPlaced> ||
                std::is_same_v<B, NotPlaced>) {
    return why::operands_differ_in_rank<0, 0>{};
  } else if constexpr (A::rank != B::rank && A::rank >= 0 && B::rank >= 0) {
    return why::operands_differ_in_rank<A::rank, B::rank>{};
  } else if constexpr (!ranks_join(A::rank, B::rank)) {  // along names a dimension that the other operand does not have
    return why::no_such_dimension<-(A::rank < 0 ? A::rank : B::rank) - 1, (A::rank < 0 ? B::rank : A::rank)>{};
  } else if constexpr (A::codes.size() != B::codes.size()) {
    return why::operands_differ_in_rank<static_cast<int>(A::codes.size()), static_cast<int>(B::codes.size())>{};
  } else {
    constexpr int first = [] {
      for (std::size_t i = 0; i < A::codes.size(); ++i)
        if (join_codes(A::codes[i], B::codes[i]) == -3) return static_cast<int>(i);
      return 0;
    }();
    return why::redistribute_operand<first, typename placement_of<B::codes[first]>::type,
                                     typename placement_of<A::codes[first]>::type>{};
  }
}
template <class A, class B>
using WhyNotJoined = decltype(why_not_joined<placed_at<A>, placed_at<B>>());

/// The same for operands that are broadcast.
template <class... X>
using combined = typename join<typename broadcast_of<common_single<X...>, X>::placed...>::type;
/// One word, not a chain of concepts, each of whose links compilers would explain.
template <class... X>
inline constexpr bool are_operands = (Operand<X> && ...);
template <class... X>
concept Combinable = are_operands<X...> && any_field<X...> && !std::is_same_v<combined<X...>, Conflict>;
template <class... X>
concept Uncombinable = are_operands<X...> && any_field<X...> && std::is_same_v<combined<X...>, Conflict>;
template <class A, class B, class, class>
struct why_not_combined {
  using type = decltype(why_not_joined<typename broadcast_of<common_single<A, B>, A>::placed,
                                       typename broadcast_of<common_single<A, B>, B>::placed>());
};
template <class A, class B>
using WhyNotCombined = typename why_not_combined<A, B, placed_at<A>, placed_at<B>>::type;

/// f of several operands. A costly part that occurs in several of them is stored (repeated_parts.hpp).
template <class F, class... E>
auto pointwise(const F& f, const E&... operands);

}  // namespace detail

/// Any functor of values, point by point: apply(MyFunctor{}, u, v). It must be callable on the device. A functor may
/// say what a call costs, in additions: static constexpr int point_cost = 20; (docs/expressions.md).
template <class F, class... X>
  requires detail::Combinable<X...>
auto apply(F f, X... x) {
  constexpr unsigned common = detail::common_single<X...>;
  return detail::pointwise(f, detail::broadcast_beside<common>(std::move(x))...);
}

}  // namespace halogen
