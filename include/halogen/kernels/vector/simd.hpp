// Vectors for inner loops of the host: the compiler's own vector type, which can be loaded and stored at any address.
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "halogen/core/config.hpp"
#include "halogen/core/half.hpp"
#include "halogen/core/vector_bytes.hpp"

#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#define HALOGEN_STREAMS 1
#endif

// Hides where a pointer comes from. Otherwise the compiler keeps every offset from it in a register of its own and
// spills others. Code for the device does not need this.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define HALOGEN_OPAQUE(pointer) __asm__("" : "+r"(pointer))
#define HALOGEN_OPAQUE_MEMORY(array) __asm__("" : "+m"(array))
#else
#define HALOGEN_OPAQUE(pointer) static_cast<void>(pointer)
#define HALOGEN_OPAQUE_MEMORY(array) static_cast<void>(array)
#endif

namespace halogen::kernels {

namespace detail {
template <class T, int Lanes>
struct vector_of {
  typedef T type __attribute__((vector_size(Lanes * sizeof(T))));
};
/// V in memory, at any address. Use it only there: a deduced type loses its attributes.
template <class V>
struct stored {
  typedef V type __attribute__((aligned(1), may_alias));
};
}  // namespace detail

template <class T, int Lanes = vector_bytes / static_cast<int>(sizeof(T))>
using Vector = typename detail::vector_of<T, Lanes>::type;

template <class T>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int wide_lanes = wide_vector_bytes / static_cast<int>(sizeof(T));
/// How many points are summed in double at once: as many as fill one register of double.
template <class T>
inline constexpr int summed_lanes = lanes<T> < double_register_bytes / 8 ? lanes<T> : double_register_bytes / 8;

template <class V, class T>
inline V load(const T* from) {
  return *reinterpret_cast<const typename detail::stored<V>::type*>(from);
}
template <class V, class T>
inline void store(T* to, V value) {
  *reinterpret_cast<typename detail::stored<V>::type*>(to) = value;
}

namespace detail {

/// Converts each lane to another arithmetic type.
template <class To, class From>
inline To convert(From from) {
#if defined(__CUDACC__)  // nvcc's front end does not know the builtin
  To to;
  for (unsigned l = 0; l < sizeof to / sizeof to[0]; ++l) to[l] = static_cast<decltype(to[0] + to[0])>(from[l]);
  return to;
#else
  return __builtin_convertvector(from, To);
#endif
}

}  // namespace detail

/// bfloat16 is read and written as float, one number or a vector. Reading widens it; writing rounds to nearest even.
template <class V>
inline V load(const bfloat16* from) {
  if constexpr (std::is_same_v<V, float>) {
    return *from;
  } else {
    constexpr int count = sizeof(V) / sizeof(float);
    const auto halves = load<Vector<std::uint16_t, count>>(&from->bits);
    return (V)(detail::convert<Vector<std::uint32_t, count>>(halves) << 16);
  }
}
template <class V>
inline void store(bfloat16* to, V value) {
  if constexpr (std::is_same_v<V, float>) {
    *to = bfloat16(value);
  } else {
    constexpr int count = sizeof(V) / sizeof(float);
    const auto word = (Vector<std::uint32_t, count>)value;
    auto rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
    rounded = (word & 0x7fffffffu) > 0x7f800000u ? word >> 16 | 0x40u : rounded;  // NaN
    store(&to->bits, detail::convert<Vector<std::uint16_t, count>>(rounded));
  }
}

inline constexpr int cache_line = 64;

/// Stores a vector past the caches. The address must be a multiple of its size, and neighbours should fill the cache
/// line.
template <class V>
inline void stream(void* to, V value) {
#if defined(HALOGEN_STREAMS) && defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)value);
#endif
#if defined(HALOGEN_STREAMS) && defined(__AVX__)
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(static_cast<__m256i*>(to), (__m256i)value);
#endif
#if defined(HALOGEN_STREAMS)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(static_cast<__m128i*>(to), (__m128i)value);
#endif
  std::memcpy(to, &value, sizeof value);
}
inline bool begins_line(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % cache_line == 0; }

/// After this, what was streamed before is in memory earlier than what is stored later.
inline void stream_fence() {
#if defined(HALOGEN_STREAMS)
  _mm_sfence();
#endif
}

/// For a row that is read once. It also prefetches what is one page further, which in the order of tiles is the next
/// rows. The hardware prefetches too, but not past a page, and rows are hardly longer than that.
template <class V, class T>
inline V load_ahead(const T* from) {
  constexpr std::size_t page = 4096;
  __builtin_prefetch(from + page / sizeof(T));
  return load<V>(from);
}

/// Converts each lane of a vector of T to double.
template <class T, class V>
inline auto widen(V value) {
  using D = Vector<double, static_cast<int>(sizeof(V) / sizeof(T))>;
#if defined(HALOGEN_STREAMS) && defined(__AVX512F__)
  if constexpr (sizeof(value) == 32 && sizeof(T) == 4)  // g++ would convert halves and join them
    return (D)_mm512_maskz_cvtps_pd(0xff, (__m256)value);
  else
#endif
    return detail::convert<D>(value);
}

/// The larger value in each lane; `a` if `b` is NaN.
template <class T, class V>
inline V larger_of(V a, V b) {
#if defined(__CUDACC__)  // nvcc's front end cannot choose between vectors
  for (std::size_t l = 0; l < sizeof(V) / sizeof(T); ++l) a[l] = a[l] < b[l] ? b[l] : a[l];
  return a;
#else
  return a < b ? b : a;
#endif
}

/// The square root of each lane, or of one number (also on a device), rounded like std::sqrt.
template <class T, class V>
HALOGEN_FUNCTION inline V square_root(V value) {
  if constexpr (std::is_same_v<V, T>) {
    return Kokkos::sqrt(value);
  } else {
#if defined(HALOGEN_STREAMS) && defined(__AVX512F__)
    if constexpr (sizeof(V) == 64 && sizeof(T) == 4) return (V)_mm512_sqrt_ps((__m512)value);
    if constexpr (sizeof(V) == 64 && sizeof(T) == 8) return (V)_mm512_sqrt_pd((__m512d)value);
#endif
#if defined(HALOGEN_STREAMS) && defined(__AVX__)
    if constexpr (sizeof(V) == 32 && sizeof(T) == 4) return (V)_mm256_sqrt_ps((__m256)value);
    if constexpr (sizeof(V) == 32 && sizeof(T) == 8) return (V)_mm256_sqrt_pd((__m256d)value);
#endif
#if defined(HALOGEN_STREAMS)
    if constexpr (sizeof(V) == 16 && sizeof(T) == 4) return (V)_mm_sqrt_ps((__m128)value);
    if constexpr (sizeof(V) == 16 && sizeof(T) == 8) return (V)_mm_sqrt_pd((__m128d)value);
#endif
    for (std::size_t l = 0; l < sizeof(V) / sizeof(T); ++l) value[l] = std::sqrt(value[l]);
    return value;
  }
}

/// -1, 0 or 1 for each lane, or for one number (also on a device).
template <class T, class V>
HALOGEN_FUNCTION inline V sign_of(V value) {
  if constexpr (std::is_same_v<V, T>) {
    return static_cast<T>(value > T(0)) - static_cast<T>(value < T(0));
  } else {
#if defined(__CUDACC__)  // nvcc's front end cannot convert the vector type of a comparison
    for (std::size_t l = 0; l < sizeof(V) / sizeof(T); ++l) value[l] = sign_of<T, T>(value[l]);
    return value;
#else
    return detail::convert<V>((value < V{}) - (value > V{}));  // a true lane is -1
#endif
  }
}

/// Limits each lane, or one number (also on a device), to [-most, most]. NaN stays NaN.
template <class T, class V>
HALOGEN_FUNCTION inline V limited(V value, T most) {
  if constexpr (std::is_same_v<V, T>)
    return value > most ? most : value < -most ? -most : value;
  else
    return -larger_of<T>(-larger_of<T>(value, V{} - most), V{} - most);
}

/// The sum of a vector's lanes. Halves are added first.
template <class T>
inline T sum_of_lanes(Vector<T> vector) {
  T lane[lanes<T>];
  store(lane, vector);
  HALOGEN_UNROLL
  for (int half = lanes<T> / 2; half > 0; half /= 2) HALOGEN_UNROLL
  for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

/// Calls f with the vector type, and for the last values with T. f.template operator()<V>(index) must compute both in
/// the same way.
template <class T, class F>
inline void for_each_vector(index_t count, F&& f) {
  index_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) f.template operator()<Vector<T>>(i);
  for (; i < count; ++i) f.template operator()<T>(i);
}

/// Calls f for values [0, count), with the number of lanes of a vector and the index where it begins. It uses wide
/// vectors as long as they fit. The last vector may reach beyond the end.
template <class T, class F>
inline void for_each_lanes(index_t count, F&& f) {
  index_t i = 0;
  if constexpr (wide_lanes < T >> lanes<T>)
    for (; i + wide_lanes<T> <= count; i += wide_lanes<T>) f.template operator()<wide_lanes<T>>(i);
  for (; i < count; i += lanes<T>) f.template operator()<lanes<T>>(i);
}

/// Stores a row past the caches, except at its ends, where it shares cache lines with its neighbours.
template <class T>
inline void stream_row(const T* from, index_t count, T* to) {
  constexpr index_t values = cache_line / sizeof(T);
  const auto into_line = static_cast<index_t>(reinterpret_cast<std::uintptr_t>(to) % cache_line / sizeof(T));
  index_t i = 0;
  for (; i < count && (into_line + i) % values != 0; ++i) to[i] = from[i];
  for (; i + values <= count; i += values)
    for (index_t j = 0; j < values; j += lanes<T>) stream(to + i + j, load<Vector<T>>(from + i + j));
  for (; i < count; ++i) to[i] = from[i];
}

}  // namespace halogen::kernels
