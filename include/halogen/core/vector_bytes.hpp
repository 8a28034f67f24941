// How wide the vectors of host kernels are: numbers that the planner knows as well.
#pragma once

namespace halogen {

// AVX-512 machines: 32-byte vectors with 32 registers. Windows read at every offset, and 64-byte loads that are not
// aligned each touch two cache lines (Zen 4: 39 beside 78 GFLOP/s in the weight gradient).
#if defined(HALOGEN_VECTOR_BYTES)
inline constexpr int vector_bytes = HALOGEN_VECTOR_BYTES;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

// What is laid out for vectors, as the transforms and products of Winograd's algorithm are, runs in vectors of 64 bytes
// where they are twice as fast or nearly: on Intel's AVX-512 and AMD's from Zen 5 on (known by vp2intersect), but not
// on Zen 4, which splits them.
#if defined(HALOGEN_WIDE_VECTOR_BYTES)
inline constexpr int wide_vector_bytes = HALOGEN_WIDE_VECTOR_BYTES;
#elif defined(__AVX512VL__) && (!defined(__SSE4A__) || defined(__AVX512VP2INTERSECT__)) && \
    !defined(HALOGEN_VECTOR_BYTES)
inline constexpr int wide_vector_bytes = 64;
#else
inline constexpr int wide_vector_bytes = vector_bytes;
#endif
static_assert(wide_vector_bytes == vector_bytes || wide_vector_bytes == 2 * vector_bytes,
              "HALOGEN_WIDE_VECTOR_BYTES is HALOGEN_VECTOR_BYTES or twice that");

// Doubles that are summed at once fill one register, whatever the vectors are: where they fill two, as halves of a
// vector, g++ moves them through memory (GroupNorm on AVX2: 7.8 beside 3.9 ms).
#if defined(HALOGEN_VECTOR_BYTES)
inline constexpr int double_register_bytes = HALOGEN_VECTOR_BYTES;
#elif defined(__AVX512F__)
inline constexpr int double_register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int double_register_bytes = 32;
#else
inline constexpr int double_register_bytes = 16;
#endif

#if defined(__AVX512VL__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

}  // namespace halogen
