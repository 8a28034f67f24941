// Pointwise nodes: arithmetic, comparisons, where, the usual functions, casts, and the user's own functors.
#pragma once

#include "halogen/expr/windowed.hpp"

namespace halogen {
namespace detail {

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
  /// The same in kernels; of a function of the host's nvcc would warn.
  template <class F>
  KOKKOS_FUNCTION decltype(auto) apply_in_kernel(const F& f) const {
    return f(Packed<I, A>::value...);
  }
};
/// A few values of different types: an aggregate, since std::tuple is no device code and costs a compiler far more.
template <class... A>
using Pack = PackOf<std::index_sequence_for<A...>, A...>;

/// Whether a row has one value for all x; what depends on such rows only is computed once a row, not once a point.
template <class Row>
inline constexpr bool is_constant_row = false;
template <class T>
inline constexpr bool is_constant_row<ConstantRow<T>> = true;

template <class F, class... Rows>
struct PointwiseRow {
  F f;
  Pack<Rows...> rows;
  KOKKOS_FUNCTION auto operator()(index_t x) const {
    return rows.apply_in_kernel([&](const Rows&... row) { return f(row(x)...); });
  }
};

template <class F, class... Bounds>
struct BoundPointwise {
  F f;
  Pack<Bounds...> args;
  template <bool Checked, int Axis>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    return args.apply_in_kernel([&](const Bounds&... arg) { return finish(arg.template row<Checked, Axis>(at)...); });
  }

 private:
  template <class T>
  KOKKOS_FUNCTION static ConstantRow<T> constant(T value) {
    return {value};
  }
  template <class... Rows>
  KOKKOS_FUNCTION auto finish(const Rows&... rows) const {
    const PointwiseRow<F, Rows...> row{f, {{rows}...}};
    if constexpr ((is_constant_row<Rows> && ...))
      return constant(row(0));
    else
      return row;
  }
};

template <class... Args>
using placed_of = typename join<typename Args::placed...>::type;

/// What two operands' extents along d are together, of which -1 fits any; throws CollectiveError where they differ.
inline index_t joint_extent(int d, index_t a, index_t b) {
  if (a >= 0 && b >= 0 && a != b)
    throw CollectiveError("operands of one expression have " + std::to_string(a) + " and " + std::to_string(b) +
                          " points in dimension " + std::to_string(d) + ": give them the same extents");
  return b >= 0 ? b : a;
}
template <class... E>
index_t common_extent(int d, const E&... expressions) {
  index_t extent = -1;
  ((extent = joint_extent(d, extent, expressions.extent(d))), ...);
  return extent;
}

}  // namespace detail

/// f applied point by point to expressions of one placement. Throws CollectiveError where their extents differ.
template <class F, class... Args>
struct Pointwise
    : ExpressionNode<std::decay_t<std::invoke_result_t<F, typename Args::value_type...>>, detail::placed_of<Args...>> {
  using Base =
      ExpressionNode<std::decay_t<std::invoke_result_t<F, typename Args::value_type...>>, detail::placed_of<Args...>>;
  static constexpr bool is_number = std::is_same_v<typename Base::placed, NotPlaced>;
  F f;
  detail::Pack<Args...> args;

  explicit Pointwise(F function, Args... operands) : f(function), args{{std::move(operands)}...} {
    if constexpr (!is_number)
      for (int d = 0; d < Base::placed::rank; ++d) extent(d);
  }

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
  } else if constexpr (!ranks_join(A::rank, B::rank)) {  // along names a dimension that its partner has not
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

}  // namespace detail

/// Any functor of values, point by point: apply(MyFunctor{}, u, v). It must be callable on the device.
template <class F, class... X>
  requires detail::Joinable<X...>
auto apply(F f, const X&... x) {
  return Pointwise<F, expression_of<X>...>(f, as_expression(x)...);
}

/// The partial derivative of what does not change smoothly: no gradient flows.
struct NoPartial {};

namespace detail {
/// 1 in a type in which its quotients are as exact as the operands'.
template <class A, class B>
constexpr auto one_of() {
  return static_cast<std::common_type_t<float, typename A::value_type, typename B::value_type>>(1);
}
}  // namespace detail

// Each operation: a functor with its value and, for gradients, partial<I>(operands...) as an expression.
#define HALOGEN_BINARY(Name, function, value_expression, first_partial, second_partial) \
  struct Name {                                                                         \
    template <class A, class B>                                                         \
    KOKKOS_FUNCTION auto operator()(A a, B b) const {                                   \
      return value_expression;                                                          \
    }                                                                                   \
    template <int I, class A, class B>                                                  \
    static auto partial([[maybe_unused]] const A& a, [[maybe_unused]] const B& b) {     \
      if constexpr (I == 0)                                                             \
        return first_partial;                                                           \
      else                                                                              \
        return second_partial;                                                          \
    }                                                                                   \
  };                                                                                    \
  template <class A, class B>                                                           \
    requires detail::Joinable<A, B>                                                     \
  auto function(const A& a, const B& b) {                                               \
    return apply(Name{}, a, b);                                                         \
  }                                                                                     \
  template <class A, class B, class Why = detail::WhyNotJoined<A, B>>                   \
    requires detail::Unjoinable<A, B>                                                   \
  void function(const A& a, const B& b) = delete;

#define HALOGEN_UNARY(Name, function, value_expression, the_partial) \
  struct Name {                                                      \
    template <class A>                                               \
    KOKKOS_FUNCTION auto operator()(A a) const {                     \
      return value_expression;                                       \
    }                                                                \
    template <int, class A>                                          \
    static auto partial([[maybe_unused]] const A& a) {               \
      return the_partial;                                            \
    }                                                                \
  };                                                                 \
  template <class A>                                                 \
    requires FieldOperand<A>                                         \
  auto function(const A& a) {                                        \
    return apply(Name{}, a);                                         \
  }

HALOGEN_BINARY(Plus, operator+, a + b, 1.0f, 1.0f)
HALOGEN_BINARY(Minus, operator-, a - b, 1.0f, -1.0f)
HALOGEN_BINARY(Times, operator*, a* b, b, a)
HALOGEN_BINARY(Divides, operator/, a / b, (detail::one_of<A, B>() / b), -((a / b) / b))
HALOGEN_BINARY(Less, operator<, a < b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(Greater, operator>, a > b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LessEqual, operator<=, a <= b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(GreaterEqual, operator>=, a >= b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(EqualTo, operator==, a == b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(NotEqualTo, operator!=, a != b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LogicalAnd, operator&&, a&& b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LogicalOr, operator||, a || b, NoPartial{}, NoPartial{})
HALOGEN_UNARY(Negate, operator-, -a, -1.0f)
HALOGEN_UNARY(LogicalNot, operator!, !a, NoPartial{})
HALOGEN_UNARY(Square, square, a* a, 2.0f * a)
HALOGEN_UNARY(Sine, sin, Kokkos::sin(a), cos(a))
HALOGEN_UNARY(Cosine, cos, Kokkos::cos(a), -sin(a))
HALOGEN_UNARY(Exponential, exp, Kokkos::exp(a), exp(a))
HALOGEN_UNARY(Logarithm, log, Kokkos::log(a), 1.0f / a)
HALOGEN_UNARY(SquareRoot, sqrt, Kokkos::sqrt(a), 0.5f / sqrt(a))
HALOGEN_UNARY(HyperbolicTangent, tanh, Kokkos::tanh(a), 1.0f - square(tanh(a)))

/// condition ? a : b, point by point; both branches are evaluated.
struct Where {
  template <class C, class A, class B>
  KOKKOS_FUNCTION auto operator()(C condition, A a, B b) const {
    return condition ? a : b;
  }
  template <int I, class C, class A, class B>
  static auto partial(const C& condition, const A&, const B&) {
    if constexpr (I == 0)
      return NoPartial{};
    else if constexpr (I == 1)
      return apply(Where{}, condition, 1.0f, 0.0f);
    else
      return apply(Where{}, condition, 0.0f, 1.0f);
  }
};
template <class C, class A, class B>
  requires detail::Joinable<C, A, B>
auto where(const C& condition, const A& a, const B& b) {
  return apply(Where{}, condition, a, b);
}

/// The value as another type: cast<double>(u).
template <class To>
struct Cast {
  template <class A>
  KOKKOS_FUNCTION To operator()(A a) const {
    return static_cast<To>(a);
  }
  template <int, class A>
  static auto partial(const A&) {
    if constexpr (std::is_integral_v<To>)
      return NoPartial{};
    else
      return 1.0f;
  }
};
template <class To, FieldOperand A>
auto cast(const A& a) {
  return apply(Cast<To>{}, a);
}

HALOGEN_UNARY(AbsoluteValue, abs, (a < A(0) ? -a : a), where(a < 0.0f, -1.0f, where(a > 0.0f, 1.0f, 0.0f)))
HALOGEN_BINARY(Maximum, maximum, (a < b ? b : a), where(a >= b, 1.0f, 0.0f), where(a < b, 1.0f, 0.0f))
HALOGEN_BINARY(Minimum, minimum, (b < a ? b : a), where(a <= b, 1.0f, 0.0f), where(b < a, 1.0f, 0.0f))

#undef HALOGEN_BINARY
#undef HALOGEN_UNARY

}  // namespace halogen
