// Vectors for host inner loops: the compiler's own vector type, unaligned, of the machine's widest registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "halogen/core/config.hpp"

#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#define HALOGEN_STREAMS 1
#endif

// nvcc's front end does not know the pragma; its host code is correct, only slower.
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__clang__)
#define HALOGEN_UNROLL _Pragma("GCC unroll 16")
#elif defined(__clang__)
#define HALOGEN_UNROLL _Pragma("unroll")
#else
#define HALOGEN_UNROLL
#endif

// Hides where a pointer came from, so that the compiler does not keep every offset from it in a register of its own
// and spill the rest. Code for the device is not concerned.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define HALOGEN_OPAQUE(pointer) __asm__("" : "+r"(pointer))
#else
#define HALOGEN_OPAQUE(pointer) static_cast<void>(pointer)
#endif

namespace halogen::kernels {

// AVX-512 machines: 32-byte vectors with 32 registers. Windows read at every offset, and 64-byte loads that are not
// aligned each touch two cache lines (Zen 4: 39 beside 78 GFLOP/s in the weight gradient). -DHALOGEN_VECTOR_BYTES=64
// suits machines with two 64-byte load ports.
#if defined(HALOGEN_VECTOR_BYTES)
inline constexpr int vector_bytes = HALOGEN_VECTOR_BYTES;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

#if defined(__AVX512VL__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

namespace detail {
template <class T, int Lanes>
struct vector_of {
  typedef T type __attribute__((vector_size(Lanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};
}  // namespace detail

template <class T, int Lanes = vector_bytes / static_cast<int>(sizeof(T))>
using Vector = typename detail::vector_of<T, Lanes>::type;

template <class T>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

template <class V, class T>
inline V load(const T* from) {
  return *reinterpret_cast<const V*>(from);
}
template <class V, class T>
inline void store(T* to, V value) {
  *reinterpret_cast<V*>(to) = value;
}

#if defined(HALOGEN_STREAMS)
/// A store that goes past the caches; `to` is aligned as the vector is wide.
template <class V, class T>
inline void stream(T* to, V value) {
  if constexpr (sizeof(V) == 64) {
#if defined(__AVX512F__)
    __m512i bits;
    std::memcpy(&bits, &value, sizeof bits);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits);
#endif
  } else if constexpr (sizeof(V) == 32) {
#if defined(__AVX__)
    __m256i bits;
    std::memcpy(&bits, &value, sizeof bits);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits);
#endif
  } else {
    __m128i bits;
    std::memcpy(&bits, &value, sizeof bits);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits);
  }
}
/// What was streamed before is in memory before what is stored after.
inline void stream_fence() { _mm_sfence(); }
#else
template <class V, class T>
inline void stream(T* to, V value) {
  store(to, value);
}
inline void stream_fence() {}
#endif

/// Each lane in double.
template <class T>
inline Vector<double, lanes<T>> widen(Vector<T> value) {
#if defined(__CUDACC__)  // nvcc's front end does not know the builtin
  Vector<double, lanes<T>> result;
  for (int l = 0; l < lanes<T>; ++l) result[l] = static_cast<double>(value[l]);
  return result;
#else
  return __builtin_convertvector(value, Vector<double, lanes<T>>);
#endif
}

/// Sum of a vector's lanes, halves first.
template <class T>
inline T sum_of_lanes(Vector<T> vector) {
  T lane[lanes<T>];
  store(lane, vector);
  HALOGEN_UNROLL
  for (int half = lanes<T> / 2; half > 0; half /= 2) HALOGEN_UNROLL
  for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

/// Calls f with a vector type, then with T for the tail: f.template operator()<V>(index) must treat both alike.
template <class T, class F>
inline void for_each_vector(index_t count, F&& f) {
  index_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) f.template operator()<Vector<T>>(i);
  for (; i < count; ++i) f.template operator()<T>(i);
}

/// A row past the caches, but for what shares a line with its neighbours.
template <class T>
inline void stream_row(const T* from, index_t count, T* to) {
  constexpr std::uintptr_t line = 64;
  const auto ahead = static_cast<index_t>((line - reinterpret_cast<std::uintptr_t>(to) % line) % line / sizeof(T));
  index_t i = 0;
  for (; i < count && i < ahead; ++i) to[i] = from[i];
  constexpr index_t values = line / sizeof(T);
  for (; i + values <= count; i += values) HALOGEN_UNROLL
  for (index_t k = 0; k < values; k += lanes<T>) stream(to + i + k, load<Vector<T>>(from + i + k));
  for (; i < count; ++i) to[i] = from[i];
}

}  // namespace halogen::kernels
