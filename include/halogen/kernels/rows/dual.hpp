// Dual numbers find the partial derivative of a user's functor by calling it. The functor only has to be a template of
// its values' type.
#pragma once

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

namespace halogen {

/// value + derivative * epsilon, where epsilon^2 = 0.
template <class T>
struct Dual {
  T value{}, derivative{};

  Dual() = default;
  KOKKOS_FUNCTION Dual(T v) : value(v) {}  // NOLINT: a number is a constant
  KOKKOS_FUNCTION Dual(T v, T d) : value(v), derivative(d) {}
  template <class N>
    requires(std::is_arithmetic_v<N> && !std::is_same_v<N, T>)
  KOKKOS_FUNCTION Dual(N v) : value(static_cast<T>(v)) {}  // NOLINT

  KOKKOS_FUNCTION friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
  KOKKOS_FUNCTION friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
  KOKKOS_FUNCTION friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, share(a.derivative, b.value) + share(b.derivative, a.value)};
  }
  KOKKOS_FUNCTION friend Dual operator/(Dual a, Dual b) {
    return {a.value / b.value, quotient(a.derivative - share(b.derivative, a.value / b.value), b.value)};
  }
  KOKKOS_FUNCTION Dual operator-() const { return {-value, -derivative}; }
  KOKKOS_FUNCTION Dual& operator+=(Dual b) { return *this = *this + b; }
  KOKKOS_FUNCTION Dual& operator-=(Dual b) { return *this = *this - b; }
  KOKKOS_FUNCTION Dual& operator*=(Dual b) { return *this = *this * b; }
  KOKKOS_FUNCTION Dual& operator/=(Dual b) { return *this = *this / b; }

  KOKKOS_FUNCTION friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  KOKKOS_FUNCTION friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  KOKKOS_FUNCTION friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  KOKKOS_FUNCTION friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  KOKKOS_FUNCTION friend bool operator==(Dual a, Dual b) { return a.value == b.value; }

  /// The operand that is not NaN. If both are equal, each contributes half of its derivative, as in PyTorch.
  KOKKOS_FUNCTION friend Dual fmax(Dual a, Dual b) {
    return a.value == b.value ? halved(a, b) : a.value < b.value || is_real(b, a) ? b : a;
  }
  KOKKOS_FUNCTION friend Dual fmin(Dual a, Dual b) {
    return a.value == b.value ? halved(a, b) : b.value < a.value || is_real(b, a) ? b : a;
  }

 private:
  /// A derivative of 0 stays 0, even if the factor is infinite or NaN: such a value does not depend on the variable.
  KOKKOS_FUNCTION static T share(T derivative, T factor) {
    const T product = derivative * factor;
    return derivative == T(0) ? T(0) : product;
  }
  KOKKOS_FUNCTION static T quotient(T derivative, T divisor) {
    const T result = derivative / divisor;
    return derivative == T(0) ? T(0) : result;
  }
  KOKKOS_FUNCTION static bool is_real(Dual a, Dual but_not) {
    return a.value == a.value && but_not.value != but_not.value;
  }
  KOKKOS_FUNCTION static Dual halved(Dual a, Dual b) { return {a.value, (a.derivative + b.derivative) / T(2)}; }
};

// Write `using Kokkos::sqrt; sqrt(x)` in a functor, and both numbers and duals find their function. A value that does
// not depend on the variable keeps the derivative 0 where the function has none, because 0 * infinity would be NaN.
#define HALOGEN_DUAL(function, partial)                                  \
  template <class T>                                                     \
  KOKKOS_FUNCTION Dual<T> function(Dual<T> a) {                          \
    [[maybe_unused]] const T x = a.value, y = Kokkos::function(a.value); \
    return {y, a.derivative == T(0) ? T(0) : a.derivative * (partial)};  \
  }
HALOGEN_DUAL(sin, Kokkos::cos(x))
HALOGEN_DUAL(cos, -Kokkos::sin(x))
HALOGEN_DUAL(exp, y)
HALOGEN_DUAL(log, T(1) / x)
HALOGEN_DUAL(sqrt, T(0.5) / y)
HALOGEN_DUAL(tanh, T(1) - y * y)
HALOGEN_DUAL(tan, T(1) + y * y)
HALOGEN_DUAL(asin, T(1) / Kokkos::sqrt(T(1) - x * x))
HALOGEN_DUAL(acos, T(-1) / Kokkos::sqrt(T(1) - x * x))
HALOGEN_DUAL(atan, T(1) / (T(1) + x * x))
HALOGEN_DUAL(sinh, Kokkos::cosh(x))
HALOGEN_DUAL(cosh, Kokkos::sinh(x))
HALOGEN_DUAL(expm1, Kokkos::exp(x))
HALOGEN_DUAL(log1p, T(1) / (T(1) + x))
HALOGEN_DUAL(erf, T(1.1283791670955126) * Kokkos::exp(-x * x))
#undef HALOGEN_DUAL
template <class T>
KOKKOS_FUNCTION Dual<T> abs(Dual<T> a) {
  const T y = Kokkos::abs(a.value);
  return {y, a.value < T(0) ? -a.derivative : a.value > T(0) ? a.derivative : T(0)};
}

template <class T>
KOKKOS_FUNCTION Dual<T> pow(Dual<T> a, Dual<T> b) {
  const T y = Kokkos::pow(a.value, b.value);
  T derivative = 0;
  if (a.derivative != T(0) && b.value != T(0))  // u^0 is constant, and so is 0^v for v >= 0
    derivative += a.derivative * b.value * Kokkos::pow(a.value, b.value - T(1));
  if (b.derivative != T(0) && !(a.value == T(0) && b.value >= T(0)))
    derivative += b.derivative * y * Kokkos::log(a.value);
  return {y, derivative};
}
template <class T, class N>
  requires std::is_arithmetic_v<N>
KOKKOS_FUNCTION Dual<T> pow(Dual<T> a, N b) {
  return pow(a, Dual<T>(b));
}
template <class T, class N>
  requires std::is_arithmetic_v<N>
KOKKOS_FUNCTION Dual<T> pow(N a, Dual<T> b) {
  return pow(Dual<T>(a), b);
}

/// The type that replaces a value's type V while some argument is the variable. Integers stay integers, because they
/// divide and index in another way.
template <class T, class V>
using dual_argument = std::conditional_t<std::is_integral_v<V>, V, Dual<T>>;

/// The partial derivative of F with respect to its Index-th value.
template <class F, int Index>
struct PartialOf {
  F f;
  template <class... Values>
  KOKKOS_FUNCTION auto operator()(Values... values) const {
    return seeded(std::make_integer_sequence<int, static_cast<int>(sizeof...(Values))>{}, values...);
  }

 private:
  template <int... I, class... Values>
  KOKKOS_FUNCTION auto seeded(std::integer_sequence<int, I...>, Values... values) const {
    using T = std::common_type_t<float, Values...>;
    static_assert(std::is_invocable_v<const F&, dual_argument<T, Values>...>,
                  "functor_is_no_template: a functor that is differentiated takes numbers of any type: "
                  "template <class T> T operator()(T value) const");
    if constexpr (std::is_invocable_v<const F&, dual_argument<T, Values>...>)
      return derivative_of<T>(f(argument<T, I>(values)...));
    else
      return T(0);
  }
  template <class T, int I, class V>
  KOKKOS_FUNCTION static dual_argument<T, V> argument(V value) {
    if constexpr (std::is_integral_v<V>)
      return value;
    else
      return {static_cast<T>(value), T(I == Index ? 1 : 0)};
  }
  template <class T>
  KOKKOS_FUNCTION static T derivative_of(Dual<T> value) {
    return value.derivative;
  }
  template <class T, class N>
    requires std::is_arithmetic_v<N>
  KOKKOS_FUNCTION static T derivative_of(N) {
    return T(0);
  }
};

}  // namespace halogen
