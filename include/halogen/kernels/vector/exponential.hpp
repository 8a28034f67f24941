// The exponential of a vector in the host's widest registers.
#pragma once

#include <Kokkos_Core.hpp>

#include <limits>

#include "halogen/kernels/vector/simd.hpp"

namespace halogen::kernels {
namespace detail {

/// e^x = 2^n e^r with integer n and |r| <= ln(2) / 2. The polynomial for e^r, lowest power first, has the least
/// relative error of its degree (float 2^-29, double 2^-58). ln(2) = high + low, where n * high is exact.
template <class T>
struct ExponentialOf;
template <>
struct ExponentialOf<float> {
  using Bits = std::uint32_t;  // unsigned, so that it wraps
  static constexpr int mantissa_bits = 23, bias = 127;
  static constexpr float lowest = -87.3365f, highest = 88.3762f, to_whole = 12582912.0f;  // 1.5 * 2^23
  static constexpr float log2_e = 1.44269504f, high = 0.693359375f, low = -2.12194440e-4f;
  static constexpr float power[] = {
      1.0f, 1.0f, 0.499999920751f, 0.166664200721f, 0.0416682261893f, 0.00837482405059f, 0.00138368357425f};
};
template <>
struct ExponentialOf<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52, bias = 1023;
  static constexpr double lowest = -708.396, highest = 709.436, to_whole = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double log2_e = 1.4426950408889634, high = 0.693145751953125, low = 1.42860682030941723212e-6;
  static constexpr double power[] = {1.0,
                                     1.0,
                                     0.50000000000000177032,
                                     0.16666666666666168167,
                                     0.041666666666492628989,
                                     0.0083333333335594517973,
                                     0.001388888895126120425,
                                     0.00019841269432434438281,
                                     0.000024801486481283498188,
                                     2.7557622652024488477e-6,
                                     2.7632308224452544435e-7,
                                     2.4994293345730463606e-8};
};

/// 2^n. The lowest bits of `shifted` are n.
template <class T, class V, class Words>
inline V power_of_two(const V& shifted, Words word) {
  using Number = ExponentialOf<T>;
  std::memcpy(&word, &shifted, sizeof word);
  word = (word + Number::bias) << Number::mantissa_bits;
  V power;
  std::memcpy(&power, &word, sizeof power);
  return power;
}

/// The parts of e^x: 2^n and the powers of r.
template <class T, class V>
struct Powers {
  using Number = ExponentialOf<T>;
  V r, two_to_n;

  explicit Powers(V x) {
    using Bits = typename Number::Bits;
    const V shifted = x * Number::log2_e + Number::to_whole;  // the lowest bits are n
    const V n = shifted - Number::to_whole;
    r = (x - n * Number::high) - n * Number::low;
    if constexpr (sizeof(V) == sizeof(T))
      two_to_n = power_of_two<T>(shifted, Bits{});
    else
      two_to_n = power_of_two<T>(shifted, Vector<Bits, static_cast<int>(sizeof(V) / sizeof(T))>{});
  }

  /// The sum over k >= First of power[k] r^(k - First).
  template <int First>
  V polynomial_from() const {
    constexpr int degree = sizeof(Number::power) / sizeof(T) - 1;
    V sum = V{} + Number::power[degree];
    HALOGEN_UNROLL
    for (int k = degree - 1; k >= First; --k) sum = sum * r + Number::power[k];
    return sum;
  }
};

}  // namespace detail

/// e^x of each lane, for T or a vector of T. The error is at most 1.5 units in the last place if the result is a normal
/// number below 2^127 (double: 2^1023). A smaller result is 0, a larger one infinity. NaN stays NaN.
template <class T, class V>
inline V exponential(V x) {
#if defined(__CUDACC__)  // nvcc's front end cannot choose between vectors
  if constexpr (sizeof(V) == sizeof(T)) {
    return Kokkos::exp(x);
  } else {
    for (std::size_t l = 0; l < sizeof(V) / sizeof(T); ++l) x[l] = Kokkos::exp(x[l]);
    return x;
  }
#else
  using Number = detail::ExponentialOf<T>;
  const detail::Powers<T, V> of(x);
  const V result = of.template polynomial_from<0>() * of.two_to_n;
  const V positive = x > Number::highest ? V{} + std::numeric_limits<T>::infinity() : result;
  return x < Number::lowest ? V{} : positive;
#endif
}

/// e^x - 1 of each lane, for T or a vector of T, just as exact for small x: within 3 units in the last place.
template <class T, class V>
inline V exponential_minus_one(V x) {
#if defined(__CUDACC__)
  if constexpr (sizeof(V) == sizeof(T)) {
    return Kokkos::expm1(x);
  } else {
    for (std::size_t l = 0; l < sizeof(V) / sizeof(T); ++l) x[l] = Kokkos::expm1(x[l]);
    return x;
  }
#else
  using Number = detail::ExponentialOf<T>;
  const detail::Powers<T, V> of(x);
  const V of_rest = of.r + of.r * of.r * of.template polynomial_from<2>();  // e^r - 1
  const V result = of_rest * of.two_to_n + (of.two_to_n - T(1));
  const V above = x > Number::highest ? V{} + std::numeric_limits<T>::infinity() : result;
  return x < Number::lowest ? V{} - T(1) : above;
#endif
}

/// The same for `count` values, in place.
template <class T>
inline void exponential_of(T* values, index_t count) {
  for_each_vector<T>(count, [&]<class V>(index_t i) { store(values + i, exponential<T>(load<V>(values + i))); });
}

}  // namespace halogen::kernels
