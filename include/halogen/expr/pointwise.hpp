// Pointwise nodes: arithmetic, comparisons, where, the usual functions, casts, and the user's own functors.
#pragma once

#include "halogen/expr/windowed.hpp"

namespace halogen {
namespace detail {

template <class F, class... Rows>
struct PointwiseRow;
template <class F, class A>
struct PointwiseRow<F, A> {
  F f;
  A a;
  KOKKOS_FUNCTION auto operator()(index_t x) const { return f(a(x)); }
};
template <class F, class A, class B>
struct PointwiseRow<F, A, B> {
  F f;
  A a;
  B b;
  KOKKOS_FUNCTION auto operator()(index_t x) const { return f(a(x), b(x)); }
};
template <class F, class A, class B, class C>
struct PointwiseRow<F, A, B, C> {
  F f;
  A a;
  B b;
  C c;
  KOKKOS_FUNCTION auto operator()(index_t x) const { return f(a(x), b(x), c(x)); }
};

template <class F, class... Bounds>
struct BoundPointwise;
template <class F, class A>
struct BoundPointwise<F, A> {
  F f;
  A a;
  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    return make(f, a.template row<Checked>(at));
  }
  template <class... R>
  KOKKOS_FUNCTION static PointwiseRow<F, R...> make(const F& f, R... rows) {
    return {f, rows...};
  }
};
template <class F, class A, class B>
struct BoundPointwise<F, A, B> {
  F f;
  A a;
  B b;
  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    return BoundPointwise<F, A>::make(f, a.template row<Checked>(at), b.template row<Checked>(at));
  }
};
template <class F, class A, class B, class C>
struct BoundPointwise<F, A, B, C> {
  F f;
  A a;
  B b;
  C c;
  template <bool Checked>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    return BoundPointwise<F, A>::make(f, a.template row<Checked>(at), b.template row<Checked>(at),
                                      c.template row<Checked>(at));
  }
};

template <class... Args>
using placed_of = typename join<typename Args::placed...>::type;

}  // namespace detail

/// f applied point by point to up to three expressions of one placement.
template <class F, class... Args>
struct Pointwise
    : ExpressionNode<std::decay_t<std::invoke_result_t<F, typename Args::value_type...>>, detail::placed_of<Args...>> {
  static_assert(sizeof...(Args) <= 3, "pointwise functions take up to three operands");
  F f;
  std::tuple<Args...> args;
  explicit Pointwise(F function, Args... operands) : f(function), args(std::move(operands)...) {}

  auto bind() const {
    return std::apply(
        [this](const Args&... operands) {
          return detail::BoundPointwise<F, decltype(operands.bind())...>{f, operands.bind()...};
        },
        args);
  }
  template <class Visit>
  void each_leaf(const Offsets& shift, const Edges& edges, Visit&& visit) const {
    std::apply([&](const Args&... operands) { (operands.each_leaf(shift, edges, visit), ...); }, args);
  }
};

namespace detail {

template <class... X>
inline constexpr bool any_field = (FieldOperand<X> || ...);

template <class... X>
using joined = typename join<typename expression_of<X>::placed...>::type;

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
  } else if constexpr (A::rank != B::rank) {
    return why::operands_differ_in_rank<A::rank, B::rank>{};
  } else if constexpr (A::codes.size() != B::codes.size()) {
    return why::operands_differ_in_rank<static_cast<int>(A::codes.size()), static_cast<int>(B::codes.size())>{};
  } else {
    constexpr int first = [] {
      for (std::size_t i = 0; i < A::codes.size(); ++i)
        if (A::codes[i] != B::codes[i]) return static_cast<int>(i);
      return 0;
    }();
    return why::redistribute_operand<first, A::codes[first], B::codes[first]>{};
  }
}
template <class A, class B>
using WhyNotJoined = decltype(why_not_joined<typename expression_of<A>::placed, typename expression_of<B>::placed>());

}  // namespace detail

/// Any functor of up to three values, point by point: apply(MyFunctor{}, u, v). It must be callable on the device.
template <class F, class... X>
  requires detail::Joinable<X...>
auto apply(F f, const X&... x) {
  return Pointwise<F, expression_of<X>...>(f, as_expression(x)...);
}

/// The partial derivative of what does not change smoothly: no gradient flows.
struct NoPartial {};

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
HALOGEN_BINARY(Divides, operator/, a / b, 1.0f / b, -(a / (b * b)))
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
