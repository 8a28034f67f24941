// The products of Winograd's algorithm. Each of the 36 is a small dense matrix product over channels, computed in
// blocks of outputs whose sums stay in registers.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/lines_ahead.hpp"
#include "halogen/kernels/vector/simd.hpp"

namespace halogen::kernels {

/// The number of channels, padded to whole vectors.
constexpr index_t winograd_width(int channels, std::size_t value_bytes) {
  const index_t vector = vector_bytes / static_cast<index_t>(value_bytes);
  return ceil_div(channels, vector) * vector;
}

namespace detail {

inline constexpr int product_rows = vector_registers >= 32 ? 8 : 4;  ///< tiles that one micro-kernel has in registers
inline constexpr int product_vectors = 2;                            ///< vectors of outputs of each

/// Calls f<vectors, lanes>(first output) for each block of `width` outputs. Blocks have two wide vectors as long as
/// they fit.
template <class T, class F>
inline void for_each_product_block(index_t width, F&& f) {
  constexpr int wide = wide_lanes<T>;
  index_t o = 0;
  for (; o + product_vectors * wide <= width; o += product_vectors * wide)
    f.template operator()<product_vectors, wide>(o);
  for_each_lanes<T>(width - o, [&]<int Lanes>(index_t i) { f.template operator()<1, Lanes>(o + i); });
}

/// Calls f<Rows>(first row) for blocks of rows whose sums, of so many vectors each, fit into the registers. After each
/// product_rows of them it prefetches what is ahead.
template <int Vectors, class F>
inline void for_each_product_rows(index_t rows, LinesAhead& ahead, F&& f) {
  constexpr int most = product_rows * product_vectors / Vectors;
  index_t r = 0;
  const auto take = [&]<int Rows>() {
    f.template operator()<Rows>(r);
    r += Rows;
    for (int i = 0; i < Rows / product_rows; ++i) ahead.next();
  };
  while (r + most <= rows) take.template operator()<most>();
  if constexpr (most > product_rows)
    while (r + product_rows <= rows) take.template operator()<product_rows>();
  while (r + 2 <= rows) take.template operator()<2>();
  if (r < rows) take.template operator()<1>();
}

/// The block that has output `out`.
template <class T>
inline Interval product_block(index_t width, index_t out) {
  Interval result;
  for_each_product_block<T>(width, [&]<int Vectors, int Lanes>(index_t o) {
    if (out >= o && out < o + Vectors * Lanes) result = {o, o + Vectors * Lanes};
  });
  return result;
}

template <class T>
inline index_t product_blocks(index_t width) {
  index_t count = 0;
  for_each_product_block<T>(width, [&]<int, int>(index_t) { ++count; });
  return count;
}

/// to[r][q] = sum over k of left[r][k] * right[k][q], with Rows x Vectors accumulators. Stride is left_stride if that
/// is known at compile time, else 0. Then its multiples take a register for each row. Not inlined, because g++ would
/// then spill registers.
template <class T, int Rows, int Vectors, int Lanes, int Stride>
[[gnu::noinline]] void multiply_strided_block(const T* left, index_t left_stride, const T* right, int inner, T* to,
                                              index_t to_stride) {
  using V = Vector<T, Lanes>;
  if constexpr (Stride > 0) left_stride = Stride;
  V sum[Rows][Vectors];
  HALOGEN_UNROLL
  for (int r = 0; r < Rows; ++r) HALOGEN_UNROLL
  for (int q = 0; q < Vectors; ++q) sum[r][q] = V{};
  for (int k = 0; k < inner; ++k) {
    V u[Vectors];
    HALOGEN_UNROLL
    for (int q = 0; q < Vectors; ++q) u[q] = load<V>(right + q * Lanes);
    right += Vectors * Lanes;
    HALOGEN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const T v = left[r * left_stride + k];
      HALOGEN_UNROLL
      for (int q = 0; q < Vectors; ++q) sum[r][q] += u[q] * v;
    }
  }
  HALOGEN_UNROLL
  for (int r = 0; r < Rows; ++r) HALOGEN_UNROLL
  for (int q = 0; q < Vectors; ++q) store(to + r * to_stride + q * Lanes, sum[r][q]);
}

/// The same. Multiples of a stride that is not constant take an index register for each row, and many rows spill them.
template <class T, int Rows, int Vectors, int Lanes>
inline void multiply_block(const T* left, index_t left_stride, const T* right, int inner, T* to, index_t to_stride) {
  const auto multiply = [&]<int Stride>() {
    multiply_strided_block<T, Rows, Vectors, Lanes, Stride>(left, left_stride, right, inner, to, to_stride);
  };
  constexpr bool spills = Rows > product_rows;
  if (spills && left_stride == lanes<T>)
    multiply.template operator()<spills ? lanes<T> : 0>();
  else if (spills && left_stride == 2 * lanes<T>)
    multiply.template operator()<spills ? 2 * lanes<T> : 0>();
  else
    multiply.template operator()<0>();
}

}  // namespace detail
}  // namespace halogen::kernels
