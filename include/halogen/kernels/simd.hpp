// Vectors for host inner loops: the compiler's own vector type, unaligned, of the machine's widest registers.
#pragma once

#include <cstring>
#include <type_traits>

#include "halogen/core/config.hpp"

// nvcc's front end does not know the pragma; its host code is correct, only slower.
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__clang__)
#define HALOGEN_UNROLL _Pragma("GCC unroll 16")
#elif defined(__clang__)
#define HALOGEN_UNROLL _Pragma("unroll")
#else
#define HALOGEN_UNROLL
#endif

namespace halogen::kernels {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
inline constexpr int vector_registers = 32;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
inline constexpr int vector_registers = 16;
#elif defined(__aarch64__)
inline constexpr int vector_bytes = 16;
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_bytes = 16;
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

/// Calls f with a vector type, then with T for the tail: f.template operator()<V>(index) must treat both alike.
template <class T, class F>
inline void for_each_vector(index_t count, F&& f) {
  index_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) f.template operator()<Vector<T>>(i);
  for (; i < count; ++i) f.template operator()<T>(i);
}

}  // namespace halogen::kernels
