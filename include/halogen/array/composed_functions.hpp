// Functions of values whose plain formula is wrong at its ends (infinities, ties, 0, integers): torch.lerp, logaddexp,
// softplus, logit, nan_to_num, isclose, full_like. docs/pytorch_functions.md has all others as short expressions.
#pragma once

#include <limits>
#include <optional>

#include "halogen/array/evaluate/assign.hpp"
#include "halogen/array/expression/functions.hpp"

namespace halogen {
namespace detail {
namespace types {

struct Lerp {
  template <class A, class B, class W>
  KOKKOS_FUNCTION auto operator()(A a, B b, W w) const {
    using T = std::common_type_t<float, A, B, W>;
    const T from = static_cast<T>(a), to = static_cast<T>(b), weight = static_cast<T>(w), step = to - from;
    return Kokkos::abs(weight) < T(0.5) ? from + weight * step : to - step * (T(1) - weight);
  }
  template <int I, class A, class B, class W>
  static auto partial(const A& a, const B& b, const W& w) {
    using T = std::common_type_t<float, typename A::value_type, typename B::value_type>;
    if constexpr (I == 0)
      return 1.0f - w;
    else if constexpr (I == 1)
      return w;
    else
      return cast<T>(b) - cast<T>(a);
  }
};

struct LogAddExp {
  static constexpr int point_cost = 32;
  template <class A, class B>
  KOKKOS_FUNCTION auto operator()(A a, B b) const {
    using T = std::common_type_t<float, A, B>;
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    const T apart = x == y ? T(0) : Kokkos::abs(x - y);  // equal infinities have no difference
    return Maximum{}(x, y) + Kokkos::log1p(Kokkos::exp(-apart));
  }
  template <int I, class A, class B>
  static auto partial(const A& a, const B& b) {
    if constexpr (I == 0)
      return where(a == b, 0.5f, sigmoid(a - b));
    else
      return where(a == b, 0.5f, sigmoid(b - a));
  }
};

struct Softplus {
  static constexpr int point_cost = 32;
  template <class A>
  KOKKOS_FUNCTION auto operator()(A a) const {
    using T = std::common_type_t<float, A>;
    const T x = static_cast<T>(a);
    return (x < T(0) ? T(0) : x) + Kokkos::log1p(Kokkos::exp(-Kokkos::abs(x)));
  }
  template <int, class A>
  static auto partial(const A& a) {
    return sigmoid(a);
  }
};

struct Logit {
  static constexpr int point_cost = 20;
  template <class A>
  KOKKOS_FUNCTION auto operator()(A a) const {
    using T = std::common_type_t<float, A>;
    return Kokkos::log(static_cast<T>(a) / (T(1) - static_cast<T>(a)));
  }
  template <int, class A>
  static auto partial(const A& a) {
    return where(a < 0.0f || a > 1.0f, std::numeric_limits<float>::quiet_NaN(), 1.0f / (a * (1.0f - a)));
  }
};

struct NanToNum {
  double nan, above, below;
  template <class A>
  KOKKOS_FUNCTION A operator()(A a) const {
    if constexpr (std::is_integral_v<A>)
      return a;
    else
      return static_cast<A>(a != a ? nan : Kokkos::isfinite(a) ? static_cast<double>(a) : a > A(0) ? above : below);
  }
  template <int, class A>
  static auto partial(const A& a) {
    return where(isfinite(a), 1.0f, 0.0f);
  }
};

struct IsClose {
  double relative, absolute;
  bool equal_nan;
  template <class A, class B>
  KOKKOS_FUNCTION bool operator()(A a, B b) const {
    if (are_equal(a, b)) return true;
    if (equal_nan && a != a && b != b) return true;
    const double apart = distance(a, b);
    return Kokkos::isfinite(apart) && apart <= absolute + Kokkos::abs(relative * static_cast<double>(b));
  }

 private:
  /// Of integers by their values, also of a signed and an unsigned one.
  template <class A, class B>
  KOKKOS_FUNCTION static bool are_equal(A a, B b) {
    if constexpr (are_integers<A, B>)
      return !is_less(a, b) && !is_less(b, a);
    else
      return a == b;
  }
  /// Exact between integers, where doubles have not enough digits; the sum of two 64-bit numbers is rounded.
  template <class A, class B>
  KOKKOS_FUNCTION static double distance(A a, B b) {
    if constexpr (are_integers<A, B>) {
      const auto apart = is_less(a, b) ? static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a)
                                       : static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b);
      if (std::is_signed_v<A> == std::is_signed_v<B> || (!is_less(a, 0) && !is_less(b, 0)))
        return static_cast<double>(apart);
    }
    return Kokkos::abs(static_cast<double>(a) - static_cast<double>(b));
  }
};

template <class T>
struct Fill {
  static constexpr bool has_gradient = false;
  T value;
  template <class A>
  KOKKOS_FUNCTION T operator()(A) const {
    return value;
  }
};

}  // namespace types

/// The largest finite number that fits wherever an expression like x is stored.
template <class X>
constexpr double largest_number() {
  if constexpr (std::is_integral_v<typename expression_of<X>::value_type>)
    return 0;  // integers are all finite
  else if constexpr (is_sharded<X> && std::is_same_v<typename X::value_type, bfloat16>)
    return 0x1.FEp127;
  else if constexpr (field_bytes_of<expression_of<X>, true> == 2)
    return 65504;
  else
    return static_cast<double>(std::numeric_limits<typename expression_of<X>::value_type>::max());
}

}  // namespace detail

/// u + weight (v - u), torch.lerp: exactly u for a weight of 0, v for 1.
template <class A, class B, class W>
  requires detail::Combinable<A, B, W>
auto lerp(const A& u, const B& v, const W& weight) {
  return halogen::apply(detail::types::Lerp{}, u, v, weight);
}
/// log(exp(u) + exp(v)) without overflow. Equal operands share the gradient, equal infinities too.
template <class A, class B>
  requires detail::Combinable<A, B>
auto logaddexp(const A& u, const B& v) {
  return halogen::apply(detail::types::LogAddExp{}, u, v);
}
template <class A, class B, class Why = detail::WhyNotCombined<A, B>>
  requires detail::Uncombinable<A, B>
void logaddexp(const A& u, const B& v) = delete;
/// log(1 + exp(u)) without overflow and for all u: PyTorch returns u itself beyond 20.
template <FieldOperand A>
auto softplus(const A& u) {
  return halogen::apply(detail::types::Softplus{}, u);
}
/// log(u / (1 - u)): -infinity at 0, infinity at 1, NaN outside, and so its derivative. With PyTorch's eps:
/// logit(clamp(u, eps, 1 - eps)).
template <FieldOperand A>
auto logit(const A& u) {
  return halogen::apply(detail::types::Logit{}, u);
}

/// What nan_to_num writes. Without a number: the largest and the smallest finite number of the value type; in an
/// expression of two-byte fields those of float16, which fit bfloat16 too.
struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf{}, neginf{};
};
/// u with numbers for NaN and infinities, torch.nan_to_num. The gradient is that of the finite points.
template <FieldOperand A>
auto nan_to_num(const A& u, const NanToNumOptions& options = {}) {
  constexpr double largest = detail::largest_number<A>();
  return halogen::apply(
      detail::types::NanToNum{options.nan, options.posinf.value_or(largest), options.neginf.value_or(-largest)}, u);
}

/// Whether |u - v| <= absolute + relative |v|, in double, or u == v, torch.isclose: equal infinities are close.
template <class A, class B>
  requires detail::Combinable<A, B>
auto isclose(const A& u, const B& v, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false) {
  return halogen::apply(detail::types::IsClose{relative, absolute, equal_nan}, u, v);
}
template <class A, class B, class Why = detail::WhyNotCombined<A, B>>
  requires detail::Uncombinable<A, B>
void isclose(const A& u, const B& v, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false) = delete;

/// A number at every point of u's grid, in u's value type, whatever u holds: torch.full_like.
template <FieldOperand A>
auto full_like(const A& u, double value) {
  using T = typename expression_of<A>::value_type;
  return halogen::apply(detail::types::Fill<T>{detail::converted<T>(value)}, u);
}
template <FieldOperand A>
auto zeros_like(const A& u) {
  return full_like(u, 0);
}
template <FieldOperand A>
auto ones_like(const A& u) {
  return full_like(u, 1);
}

}  // namespace halogen
