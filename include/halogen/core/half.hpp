// Two-byte floating-point numbers for storage: fields hold and send them, every computation is in float.
#pragma once

#include <cstdint>
#include <type_traits>

#include "halogen/core/config.hpp"

namespace halogen {

// __builtin_bit_cast, since std::bit_cast is no device function.

/// float's upper half (8 bits of exponent, 7 of mantissa); rounds to nearest even, NaN stays NaN.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  HALOGEN_FUNCTION explicit bfloat16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? word >> 16 | 0x40u : (word + 0x7fffu + (word >> 16 & 1)) >> 16);
#endif
  }
  HALOGEN_FUNCTION operator float() const { return __builtin_bit_cast(float, std::uint32_t{bits} << 16); }
};

/// IEEE 754 binary16 (5 bits of exponent, 10 of mantissa); rounds to nearest even, overflows to infinity.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  HALOGEN_FUNCTION explicit float16(float value) {
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;  // NaN
    } else if (magnitude >= 0x47800000u) {
      half = 0x7c00u;  // 65536 and more
    } else if (magnitude >= 0x38800000u) {
      half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;  // may carry into infinity, rightly
    } else {
      // Subnormal: adding 0.5 makes the float unit round at 2^-24, float16's smallest step.
      half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  HALOGEN_FUNCTION operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
    std::uint32_t word = 0;
    if (magnitude >= 0x7c00u)
      word = magnitude << 13 | 0x7f800000u;
    else if (magnitude >= 0x400u)
      word = (magnitude << 13) + 0x38000000u;
    else
      word = __builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude) * 0x1p-24f);
    return __builtin_bit_cast(float, sign | word);
  }
};

/// What a stored value is computed in: itself, and float for the two-byte ones.
template <class T>
using compute_type = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

/// Bytes of a value as it is stored and as it is computed in.
struct ValueBytes {
  std::size_t stored = 0, computed = 0;

  template <class T>
  HALOGEN_FUNCTION static constexpr ValueBytes of() {
    return {sizeof(T), sizeof(compute_type<T>)};
  }
};

}  // namespace halogen
