// Vectors with their lanes in another order: rows that are split into pairs and joined again, and transposed square
// blocks.
#pragma once

#include <utility>

#include "halogen/kernels/vector/simd.hpp"

namespace halogen::kernels {
namespace detail {

// nvcc's front end does not know the builtin. Its host code goes through memory.
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

/// For each group of Size lanes of a and b: alternates the lanes of the first halves (low) or of the second halves
/// (high).
template <int Size, class V, int... I>
inline V interleave_low(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int count = sizeof...(I);
  return shuffle<(I / Size * Size + I % Size / 2 + I % 2 * count)...>(a, b);
}
template <int Size, class V, int... I>
inline V interleave_high(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int count = sizeof...(I);
  return shuffle<(I / Size * Size + Size / 2 + I % Size / 2 + I % 2 * count)...>(a, b);
}
/// Of a and b side by side: the first, third, ... group of Size lanes, or the groups between these.
template <int Size, class V, int... I>
inline V every_second(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle<(2 * (I / Size) * Size + I % Size)...>(a, b);
}
template <int Size, class V, int... I>
inline V every_other(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle<((2 * (I / Size) + 1) * Size + I % Size)...>(a, b);
}

/// How many lanes are in the 16 bytes within which one instruction can shuffle on every processor.
template <class T, int Count>
inline constexpr int reach = Count < 16 / static_cast<int>(sizeof(T)) ? Count : 16 / static_cast<int>(sizeof(T));

}  // namespace detail

template <class T>
using LaneIndices = std::make_integer_sequence<int, lanes<T>>;

/// Reads 2 lanes<T> values: one vector with the first value of each pair, one with the second.
template <class T>
inline void load_pairs(const T* from, Vector<T>& first, Vector<T>& second) {
  const Vector<T> a = load_ahead<Vector<T>>(from), b = load_ahead<Vector<T>>(from + lanes<T>);
  first = detail::every_second<1>(a, b, LaneIndices<T>{});
  second = detail::every_other<1>(a, b, LaneIndices<T>{});
}

/// The inverse of load_pairs.
template <class T>
inline void store_pairs(T* to, Vector<T> first, Vector<T> second) {
  store(to, detail::interleave_low<lanes<T>>(first, second, LaneIndices<T>{}));
  store(to + lanes<T>, detail::interleave_high<lanes<T>>(first, second, LaneIndices<T>{}));
}

/// rows[i][j] -> rows[j][i] for as many vectors as they have lanes. It transposes within the 16 bytes that most
/// shuffles reach, then moves these blocks.
template <class T, int Count>
[[gnu::always_inline]] inline void transpose(Vector<T, Count> (&rows)[Count]) {
  constexpr int together = detail::reach<T, Count>;
  constexpr std::make_integer_sequence<int, Count> all{};
  HALOGEN_UNROLL
  for (int step = 1; step < Count; step *= 2) {
    Vector<T, Count> next[Count];
    HALOGEN_UNROLL
    for (int i = 0; i < Count / 2; ++i) {
      const int within = i % (together / 2), group = 2 * (i - within);
      if (step < together) {
        const Vector<T, Count> a = rows[group + within], b = rows[group + within + together / 2];
        next[group + 2 * within] = detail::interleave_low<together>(a, b, all);
        next[group + 2 * within + 1] = detail::interleave_high<together>(a, b, all);
      } else {
        const int lane = i % together, pair = i - lane;
        const Vector<T, Count> a = rows[2 * pair + lane], b = rows[2 * pair + together + lane];
        next[i] = detail::every_second<together>(a, b, all);
        next[Count / 2 + i] = detail::every_other<together>(a, b, all);
      }
    }
    HALOGEN_UNROLL
    for (int i = 0; i < Count; ++i) rows[i] = next[i];
  }
}

/// Transposes points [begin, end) of Lanes lines to [point][lane]. It reads and writes whole blocks of Lanes points.
template <class T, int Lanes>
[[gnu::noinline]] void transpose_lines(const T* const (&lines)[Lanes], index_t begin, index_t end, T* to) {
  using V = Vector<T, Lanes>;
  for (index_t x = begin; x < end; x += Lanes) {
    V block[Lanes];
    HALOGEN_UNROLL
    for (int l = 0; l < Lanes; ++l) block[l] = load<V>(lines[l] + x);
    transpose<T>(block);
    HALOGEN_UNROLL
    for (int l = 0; l < Lanes; ++l) store(to + (x + l) * Lanes, block[l]);
  }
}

}  // namespace halogen::kernels
