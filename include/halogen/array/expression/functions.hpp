// The usual pointwise functions, with their partial derivatives: arithmetic, comparisons, where, casts, and the
// mathematical functions with their names in PyTorch. Types promote as in C++; what C++ leaves open for integers is
// defined in core/integers.hpp: they wrap, a quotient and a remainder by 0 are 0.
#pragma once

#include "halogen/array/expression/pointwise.hpp"
#include "halogen/core/integers.hpp"

namespace halogen {

namespace detail {
/// A number in a type in which its products and quotients are as exact as the other operand.
template <class... Operands>
constexpr auto number_of(double value) {
  return static_cast<std::common_type_t<float, typename Operands::value_type...>>(value);
}
/// a to the power of b in their common type, so that pow(u, 2) of a float is a float.
template <class A, class B>
KOKKOS_FUNCTION auto power(A a, B b) {
  using T = std::conditional_t<std::is_integral_v<A> && std::is_integral_v<B>, double, std::common_type_t<A, B>>;
  return Kokkos::pow(static_cast<T>(a), static_cast<T>(b));
}
/// 1 / (1 + exp(-a)), with a in the type that exp returns, because minus an unsigned a would be a large number.
template <class A>
KOKKOS_FUNCTION auto logistic(A a) {
  using T = decltype(Kokkos::exp(a));
  return T(1) / (T(1) + Kokkos::exp(-static_cast<T>(a)));
}
/// |a|; |-0.0| is 0.0, and that of the smallest integer is the smallest integer, as in PyTorch.
template <class A>
KOKKOS_FUNCTION auto magnitude(A a) {
  if constexpr (std::is_floating_point_v<A>)
    return Kokkos::abs(a);
  else
    return a < A(0) ? negative_of(a) : a;
}
/// With the dividend's sign, as std::fmod; also for integers.
template <class A, class B>
KOKKOS_FUNCTION auto truncated_remainder(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_integral_v<T>)
    return rest_of(static_cast<T>(a), static_cast<T>(b));
  else
    return Kokkos::fmod(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
KOKKOS_FUNCTION auto floored_remainder(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_integral_v<T>) {
    const T rest = rest_of(static_cast<T>(a), static_cast<T>(b));
    return rest != 0 && (rest < 0) != (static_cast<T>(b) < 0) ? rest + static_cast<T>(b) : rest;
  } else {
    const T rest = Kokkos::fmod(static_cast<T>(a), static_cast<T>(b));
    return rest != T(0) && (rest < T(0)) != (static_cast<T>(b) < T(0)) ? rest + static_cast<T>(b) : rest;
  }
}
/// The integer n of a = n b + floored_remainder(a, b); a / b where b is 0.
template <class A, class B>
KOKKOS_FUNCTION auto floored_quotient(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T dividend = static_cast<T>(a), divisor = static_cast<T>(b);
  if constexpr (std::is_integral_v<T>) {
    const T quotient = static_cast<T>(quotient_of(dividend, divisor)), rest = rest_of(dividend, divisor);
    return static_cast<T>(rest != 0 && (rest < 0) != (divisor < 0) ? quotient - 1 : quotient);
  } else {
    if (divisor == T(0)) return dividend / divisor;
    const T rest = Kokkos::fmod(dividend, divisor);
    const bool is_below = rest != T(0) && (rest < T(0)) != (divisor < T(0));
    const T quotient = (dividend - rest) / divisor - (is_below ? T(1) : T(0));  // whole, but for its rounding
    return quotient == T(0) ? Kokkos::copysign(T(0), dividend / divisor) : Kokkos::nearbyint(quotient);
  }
}
// The whole numbers beside a real number; an integer is one already.
#define HALOGEN_ROUNDED(Name, function)  \
  template <class A>                     \
  KOKKOS_FUNCTION auto Name(A a) {       \
    if constexpr (std::is_integral_v<A>) \
      return a;                          \
    else                                 \
      return Kokkos::function(a);        \
  }
HALOGEN_ROUNDED(floor_of, floor)
HALOGEN_ROUNDED(ceiling_of, ceil)
HALOGEN_ROUNDED(truncated, trunc)
HALOGEN_ROUNDED(rounded_to_even, nearbyint)
#undef HALOGEN_ROUNDED
}  // namespace detail

#define HALOGEN_BINARY_FUNCTION(Name, function)                         \
  template <class A, class B>                                           \
    requires detail::Combinable<A, B>                                   \
  auto function(A a, B b) {                                             \
    return halogen::apply(Name{}, std::move(a), std::move(b));          \
  }                                                                     \
  template <class A, class B, class Why = detail::WhyNotCombined<A, B>> \
    requires detail::Uncombinable<A, B>                                 \
  void function(A a, B b) = delete;

// Each operation is a functor with its value and, for gradients, partial<I>(operands...) as an expression.
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
  HALOGEN_BINARY_FUNCTION(Name, function)

#define HALOGEN_UNARY_FUNCTION(Name, function)   \
  template <class A>                             \
    requires FieldOperand<A>                     \
  auto function(A a) {                           \
    return halogen::apply(Name{}, std::move(a)); \
  }

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
  HALOGEN_UNARY_FUNCTION(Name, function)

// A real function whose derivative is 0 or not asked for.
#define HALOGEN_WITHOUT_GRADIENT(Name, function, value_expression) \
  struct Name {                                                    \
    static constexpr bool has_gradient = false;                    \
    template <class A>                                             \
    KOKKOS_FUNCTION auto operator()(A a) const {                   \
      return value_expression;                                     \
    }                                                              \
  };                                                               \
  HALOGEN_UNARY_FUNCTION(Name, function)

HALOGEN_BINARY(Plus, operator+, detail::sum_of(a, b), 1.0f, 1.0f)
HALOGEN_BINARY(Minus, operator-, detail::difference_of(a, b), 1.0f, -1.0f)
HALOGEN_BINARY(Times, operator*, detail::product_of(a, b), b, a)
HALOGEN_BINARY(Divides, operator/, detail::quotient_of(a, b), (detail::number_of<A, B>(1) / b), -((a / b) / b))
HALOGEN_BINARY(Less, operator<, a < b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(Greater, operator>, a > b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LessEqual, operator<=, a <= b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(GreaterEqual, operator>=, a >= b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(EqualTo, operator==, a == b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(NotEqualTo, operator!=, a != b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LogicalAnd, operator&&, a&& b, NoPartial{}, NoPartial{})
HALOGEN_BINARY(LogicalOr, operator||, a || b, NoPartial{}, NoPartial{})
HALOGEN_UNARY(Negate, operator-, detail::negative_of(a), -1.0f)
HALOGEN_WITHOUT_GRADIENT(LogicalNot, operator!, !a)
HALOGEN_UNARY(Square, square, detail::product_of(a, a), 2.0f * a)
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
      return halogen::apply(Where{}, condition, 1.0f, 0.0f);
    else
      return halogen::apply(Where{}, condition, 0.0f, 1.0f);
  }
};
template <class C, class A, class B>
  requires detail::Combinable<C, A, B>
auto where(const C& condition, const A& a, const B& b) {
  return halogen::apply(Where{}, condition, a, b);
}

/// The value as another type: cast<double>(u). Reals become integers by detail::converted: cut towards 0, within range.
template <class To>
struct Cast {
  template <class A>
  KOKKOS_FUNCTION To operator()(A a) const {
    return detail::converted<To>(a);
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
auto cast(A a) {
  return halogen::apply(Cast<To>{}, std::move(a));
}

HALOGEN_UNARY(AbsoluteValue, abs, detail::magnitude(a), where(a < 0.0f, -1.0f, where(a > 0.0f, 1.0f, 0.0f)))
HALOGEN_WITHOUT_GRADIENT(Sign, sign, static_cast<A>((A(0) < a) - (a < A(0))))
HALOGEN_UNARY(Tangent, tan, Kokkos::tan(a), 1.0f + square(tan(a)))
HALOGEN_UNARY(ArcSine, asin, Kokkos::asin(a), rsqrt(1.0f - square(a)))
HALOGEN_UNARY(ArcCosine, acos, Kokkos::acos(a), -rsqrt(1.0f - square(a)))
HALOGEN_UNARY(ArcTangent, atan, Kokkos::atan(a), 1.0f / (1.0f + square(a)))
HALOGEN_UNARY(HyperbolicSine, sinh, Kokkos::sinh(a), cosh(a))
HALOGEN_UNARY(HyperbolicCosine, cosh, Kokkos::cosh(a), sinh(a))
HALOGEN_UNARY(ExponentialMinusOne, expm1, Kokkos::expm1(a), exp(a))
HALOGEN_UNARY(LogarithmOfOnePlus, log1p, Kokkos::log1p(a), 1.0f / (1.0f + a))
HALOGEN_UNARY(LogarithmToBase10, log10, Kokkos::log10(a), detail::number_of<A>(0.43429448190325183) / a)
HALOGEN_UNARY(LogarithmToBase2, log2, Kokkos::log2(a), detail::number_of<A>(1.4426950408889634) / a)
HALOGEN_UNARY(PowerOf2, exp2, Kokkos::exp2(a), detail::number_of<A>(0.69314718055994531) * exp2(a))
HALOGEN_UNARY(InverseHyperbolicSine, asinh, Kokkos::asinh(a), rsqrt(square(a) + 1.0f))
HALOGEN_UNARY(InverseHyperbolicCosine, acosh, Kokkos::acosh(a), rsqrt(square(a) - 1.0f))
HALOGEN_UNARY(InverseHyperbolicTangent, atanh, Kokkos::atanh(a), 1.0f / (1.0f - square(a)))
HALOGEN_UNARY(ComplementaryErrorFunction, erfc, Kokkos::erfc(a),
              -(detail::number_of<A>(1.1283791670955126) * exp(-square(a))))
HALOGEN_UNARY(Reciprocal, reciprocal, 1.0f / a, -square(1.0f / a))
HALOGEN_UNARY(ErrorFunction, erf, Kokkos::erf(a), detail::number_of<A>(1.1283791670955126) * exp(-square(a)))
HALOGEN_UNARY(ReciprocalSquareRoot, rsqrt, A(1) / Kokkos::sqrt(a), -0.5f * (rsqrt(a) * rsqrt(a) * rsqrt(a)))
HALOGEN_UNARY(Logistic, sigmoid, detail::logistic(a), sigmoid(a) * (1.0f - sigmoid(a)))
HALOGEN_UNARY(Rectifier, relu, (a < A(0) ? A(0) : a), where(a <= 0.0f, 0.0f, 1.0f))
HALOGEN_WITHOUT_GRADIENT(Floor, floor, detail::floor_of(a))
HALOGEN_WITHOUT_GRADIENT(Ceiling, ceil, detail::ceiling_of(a))
HALOGEN_WITHOUT_GRADIENT(Truncation, trunc, detail::truncated(a))
HALOGEN_WITHOUT_GRADIENT(Rounding, round, detail::rounded_to_even(a))  // halves round to even, as in PyTorch
HALOGEN_WITHOUT_GRADIENT(IsNan, isnan, Kokkos::isnan(a))
HALOGEN_WITHOUT_GRADIENT(IsInfinite, isinf, Kokkos::isinf(a))
HALOGEN_WITHOUT_GRADIENT(IsFinite, isfinite, Kokkos::isfinite(a))
HALOGEN_WITHOUT_GRADIENT(Detach, detach, a)  // the value, without a gradient

// A NaN counts as the larger and as the smaller; each of two equal operands gets half the gradient, as in PyTorch.
HALOGEN_BINARY(Maximum, maximum, detail::larger_of(a, b), where(a < b, 0.0f, where(a == b, 0.5f, 1.0f)),
               where(b < a, 0.0f, where(a == b, 0.5f, 1.0f)))
HALOGEN_BINARY(Minimum, minimum, detail::smaller_of(a, b), where(b < a, 0.0f, where(a == b, 0.5f, 1.0f)),
               where(a < b, 0.0f, where(a == b, 0.5f, 1.0f)))
// u^0, and 0^v for v >= 0, are constant. They have derivative 0 although the formula says 0 * infinity.
HALOGEN_BINARY(Power, pow, detail::power(a, b), where(b == 0.0f, 0.0f, b* pow(a, b - 1.0f)),
               where(a == 0.0f && b >= 0.0f, 0.0f, pow(a, b) * log(a)))
// Both derivatives are 0 at (0, 0), as in PyTorch.
HALOGEN_BINARY(ArcTangent2, atan2, Kokkos::atan2(a, b),
               where(a == 0.0f && b == 0.0f, 0.0f, b / (square(a) + square(b))),
               where(a == 0.0f && b == 0.0f, 0.0f, -a / (square(a) + square(b))))
HALOGEN_BINARY(Hypotenuse, hypot, Kokkos::hypot(a, b), (a / hypot(a, b)), (b / hypot(a, b)))
// The integer n of a = n b + remainder(a, b), as Python's a // b and torch.floor_divide; of reals a real number.
HALOGEN_BINARY(FlooredQuotient, floor_divide, detail::floored_quotient(a, b), NoPartial{}, NoPartial{})
// With the divisor's sign, as in PyTorch and Python: remainder(longitude, 360.0f).
HALOGEN_BINARY(Remainder, remainder, detail::floored_remainder(a, b), 1.0f, -floor_divide(a, b))
// The same, also for integers: torch's a % b, and not that of C++, which has the dividend's sign (fmod).
HALOGEN_BINARY_FUNCTION(Remainder, operator%)
HALOGEN_BINARY(TruncatedRemainder, fmod, detail::truncated_remainder(a, b), 1.0f, -trunc(a / b))
HALOGEN_BINARY(LogicalXor, logical_xor, !a != !b, NoPartial{}, NoPartial{})

// maximum and minimum with their C++ names, as torch.max(a, b); max(u) is the largest value of u.
HALOGEN_BINARY_FUNCTION(Maximum, max)
HALOGEN_BINARY_FUNCTION(Minimum, min)

/// Clamped between two numbers. The derivative is 1 between them and 0 at and beyond them, as in PyTorch.
struct Clamp {
  template <class A, class Low, class High>
  KOKKOS_FUNCTION auto operator()(A a, Low low, High high) const {
    return Minimum{}(Maximum{}(a, low), high);
  }
  template <int I, class A, class Low, class High>
  static auto partial(const A& a, const Low& low, const High& high) {
    if constexpr (I == 0)
      return where(low < a && a < high, 1.0f, 0.0f);
    else
      return NoPartial{};
  }
};
/// Clamped between two bounds, numbers or fields: torch.clamp. If u equals a bound that is a field, both get half the
/// gradient.
template <class A, class Low, class High>
auto clamp(const A& a, const Low& low, const High& high) {
  if constexpr (std::is_arithmetic_v<Low> && std::is_arithmetic_v<High>)
    return halogen::apply(Clamp{}, a, low, high);
  else
    return minimum(maximum(a, low), high);
}

#undef HALOGEN_BINARY
#undef HALOGEN_BINARY_FUNCTION
#undef HALOGEN_UNARY
#undef HALOGEN_UNARY_FUNCTION
#undef HALOGEN_WITHOUT_GRADIENT

}  // namespace halogen
