// Lanes of vectors in another order: rows taken apart and put together by twos, square blocks turned over.
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

/// Lane I of the result is lane index[I] of a and b side by side.
template <int... Index, class V>
inline V shuffle(V a, V b) {
#ifdef HALOGEN_SHUFFLE
  return __builtin_shufflevector(a, b, Index...);
#else
  constexpr int count = sizeof...(Index);
  V result;
  int i = 0;
  ((result[i++] = Index < count ? a[Index % count] : b[Index % count]), ...);
  return result;
#endif
}

template <class V, int... I>
inline V interleave_low(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle<(I / 2 + I % 2 * static_cast<int>(sizeof...(I)))...>(a, b);
}
template <class V, int... I>
inline V interleave_high(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int count = sizeof...(I);
  return shuffle<(count / 2 + I / 2 + I % 2 * count)...>(a, b);
}
template <class V, int... I>
inline V every_second(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle<2 * I...>(a, b);
}
template <class V, int... I>
inline V every_other(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle<(2 * I + 1)...>(a, b);
}

}  // namespace detail

template <class T>
using LaneIndices = std::make_integer_sequence<int, lanes<T>>;

/// A vector of pairs' first or second values, from 2 lanes<T> values.
template <class T>
inline void load_pairs(const T* from, Vector<T>& first, Vector<T>& second) {
  const Vector<T> a = load_ahead<Vector<T>>(from), b = load_ahead<Vector<T>>(from + lanes<T>);
  first = detail::every_second(a, b, LaneIndices<T>{});
  second = detail::every_other(a, b, LaneIndices<T>{});
}

/// The inverse of load_pairs.
template <class T>
inline void store_pairs(T* to, Vector<T> first, Vector<T> second) {
  store(to, detail::interleave_low(first, second, LaneIndices<T>{}));
  store(to + lanes<T>, detail::interleave_high(first, second, LaneIndices<T>{}));
}

/// rows[i][j] -> rows[j][i] for as many vectors as they have lanes.
template <class T, int Count>
inline void transpose(Vector<T, Count> (&rows)[Count]) {
  constexpr std::make_integer_sequence<int, Count> all{};
  HALOGEN_UNROLL
  for (int step = 1; step < Count; step *= 2) {
    Vector<T, Count> next[Count];
    HALOGEN_UNROLL
    for (int i = 0; i < Count / 2; ++i) {
      next[2 * i] = detail::interleave_low(rows[i], rows[i + Count / 2], all);
      next[2 * i + 1] = detail::interleave_high(rows[i], rows[i + Count / 2], all);
    }
    HALOGEN_UNROLL
    for (int i = 0; i < Count; ++i) rows[i] = next[i];
  }
}

}  // namespace halogen::kernels
