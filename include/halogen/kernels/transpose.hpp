// Square blocks of vectors turned over in registers: from rows of x to channels side by side, and back.
#pragma once

#include <utility>

#include "halogen/kernels/simd.hpp"

namespace halogen::kernels {
namespace detail {

// nvcc's front end does not know the builtin; its host code goes through memory.
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_shufflevector)
#define HALOGEN_SHUFFLE 1
#endif
#endif

/// Elements of a and b in turn, the first half of each (High = 0) or the second.
template <int High, class V, int... I>
inline V interleave(V a, V b, std::integer_sequence<int, I...>) {
#ifdef HALOGEN_SHUFFLE
  constexpr int count = sizeof...(I);
  return __builtin_shufflevector(a, b, (High * count / 2 + I / 2 + I % 2 * count)...);
#else
  constexpr int count = sizeof...(I);
  V result;
  ((result[I] = (I % 2 == 0 ? a : b)[High * count / 2 + I / 2]), ...);
  return result;
#endif
}

}  // namespace detail

/// rows[i][j] -> rows[j][i] for lanes<T> vectors.
template <class T>
inline void transpose(Vector<T> (&rows)[lanes<T>]) {
  constexpr int count = lanes<T>;
  using Sequence = std::make_integer_sequence<int, count>;
  HALOGEN_UNROLL
  for (int step = 1; step < count; step *= 2) {
    Vector<T> next[count];
    HALOGEN_UNROLL
    for (int i = 0; i < count / 2; ++i) {
      next[2 * i] = detail::interleave<0>(rows[i], rows[i + count / 2], Sequence{});
      next[2 * i + 1] = detail::interleave<1>(rows[i], rows[i + count / 2], Sequence{});
    }
    HALOGEN_UNROLL
    for (int i = 0; i < count; ++i) rows[i] = next[i];
  }
}

}  // namespace halogen::kernels
