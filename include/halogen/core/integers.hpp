// Arithmetic of numbers that is defined for all of them. C++ leaves open what an integer overflow, a quotient by 0 and
// the integer of a NaN are; some processors end the program there.
//
//   a + b, a - b, a * b, -a    of integers wrap, as in NumPy and PyTorch: -(the smallest) is the smallest
//   a / 0, a % 0               of integers are 0, as in NumPy
//   smallest / -1, % -1        wrap: the smallest; 0
//   maximum, minimum           of a signed and an unsigned integer: of their values; where the type is unsigned, a
//                              negative minimum is 0, the nearest that is in range
//   real to integer            cut towards 0; what is out of range becomes the nearest that is in range, NaN 0
//
// Types are those of C++'s operators.
#pragma once

#include <limits>
#include <type_traits>

#include "halogen/core/config.hpp"

namespace halogen::detail {

template <class... T>
inline constexpr bool are_integers = (std::is_integral_v<T> && ...);

template <class A, class B>
HALOGEN_FUNCTION constexpr auto sum_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = decltype(a + b);
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
  } else {
    return a + b;
  }
}
template <class A, class B>
HALOGEN_FUNCTION constexpr auto difference_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = decltype(a - b);
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) - static_cast<Bits>(b));
  } else {
    return a - b;
  }
}
template <class A, class B>
HALOGEN_FUNCTION constexpr auto product_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = decltype(a * b);
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
  } else {
    return a * b;
  }
}
template <class A>
HALOGEN_FUNCTION constexpr auto negative_of(A a) {
  if constexpr (are_integers<A>)
    return difference_of(decltype(-a)(0), a);
  else
    return -a;
}
template <class A, class B>
HALOGEN_FUNCTION constexpr auto quotient_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = decltype(a / b);
    const T dividend = static_cast<T>(a), divisor = static_cast<T>(b);
    if (divisor == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (divisor == -1) return static_cast<T>(negative_of(dividend));
    return static_cast<T>(dividend / divisor);
  } else {
    return a / b;
  }
}
/// The rest of quotient_of, with the dividend's sign.
template <class T>
HALOGEN_FUNCTION constexpr T rest_of(T dividend, T divisor) {
  static_assert(are_integers<T>);
  if (divisor == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (divisor == -1) return 0;
  return static_cast<T>(dividend % divisor);
}

/// a < b of integers, by their values.
template <class A, class B>
HALOGEN_FUNCTION constexpr bool is_less(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_unsigned_v<T> && std::is_signed_v<A>)
    if (a < 0) return true;
  if constexpr (std::is_unsigned_v<T> && std::is_signed_v<B>)
    if (b < 0) return false;
  return static_cast<T>(a) < static_cast<T>(b);
}
/// An integer as a T, or the nearest number that a T holds if it is negative and T is unsigned.
template <class T, class A>
HALOGEN_FUNCTION constexpr T not_below_range(A a) {
  if constexpr (std::is_unsigned_v<T> && std::is_signed_v<A>)
    if (a < 0) return 0;
  return static_cast<T>(a);
}
/// A NaN counts as the larger and as the smaller.
template <class A, class B>
HALOGEN_FUNCTION constexpr auto larger_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = std::common_type_t<A, B>;
    return is_less(a, b) ? not_below_range<T>(b) : not_below_range<T>(a);
  } else {
    return a < b || b != b ? b : a;
  }
}
template <class A, class B>
HALOGEN_FUNCTION constexpr auto smaller_of(A a, B b) {
  if constexpr (are_integers<A, B>) {
    using T = std::common_type_t<A, B>;
    return is_less(b, a) ? not_below_range<T>(b) : not_below_range<T>(a);
  } else {
    return b < a || b != b ? b : a;
  }
}

/// The value as a To.
template <class To, class From>
HALOGEN_FUNCTION constexpr To converted(From value) {
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && std::is_floating_point_v<From>) {
    constexpr To largest = std::numeric_limits<To>::max(), smallest = std::numeric_limits<To>::min();
    // A power of 2, so exact: the first value beyond the largest integer. Its negative is the smallest.
    constexpr From beyond = static_cast<From>(largest / 2 + 1) * 2;
    if (value >= beyond) return largest;
    if (value <= static_cast<From>(smallest)) return smallest;
    return value == value ? static_cast<To>(value) : To(0);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace halogen::detail
