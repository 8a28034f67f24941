// sum += left * right for 16 x 8 and 8 x 8 words, by one warp: mma.sync m16n8k8 of tf32 (float) or f64 (double), where
// a word is a value, or m16n8k16 of bfloat16, where a word is two values side by side along the inner dimension. Sums
// have the type of the computation. Only this file knows the instruction, and which lane has which element. Elsewhere
// than on a device the same fragments are in plain arrays, lane by lane, and the product is a loop.
//
// float: on tensor cores an operand has 10 bits of mantissa. If it is split in two, x = big + small, and three products
// are added (big big, big small, small big), the relative error of a product is at most 2^-21 (2^-24 for float itself).
// Without the split it is 2^-10. With the split infinite operands give NaN. bfloat16: operands are rounded when they
// are written to scratch (relative error of a product at most 2^-7), and products are exact.
#pragma once

#include "halogen/core/half.hpp"
#include "halogen/kernels/tiles/device_team.hpp"

namespace halogen::kernels::device {

inline constexpr int mma_rows = 16, mma_columns = 8, mma_inner = 8;  ///< mma_inner: in words

/// Two values side by side. The first is in the lower half of a register.
struct alignas(4) BfloatPair {
  bfloat16 first, second;
};

/// A word of an operand, and the values in it.
template <class E>
struct WordOf {
  using value_type = E;
  static constexpr int values = 1;
  template <class Get>
  KOKKOS_FORCEINLINE_FUNCTION static E make(Get get) {
    return get(0);
  }
  KOKKOS_FORCEINLINE_FUNCTION static double sum(E word) { return static_cast<double>(word); }
  KOKKOS_FORCEINLINE_FUNCTION static void add_product(E a, E b, E& sum) { sum += a * b; }
};
template <>
struct WordOf<BfloatPair> {
  using value_type = bfloat16;
  static constexpr int values = 2;
  /// Makes a word from get(0) and get(1).
  template <class Get>
  KOKKOS_FORCEINLINE_FUNCTION static BfloatPair make(Get get) {
    return {bfloat16(get(0)), bfloat16(get(1))};
  }
  KOKKOS_FORCEINLINE_FUNCTION static double sum(BfloatPair word) {
    return static_cast<double>(float(word.first)) + static_cast<double>(float(word.second));
  }
  KOKKOS_FORCEINLINE_FUNCTION static void add_product(BfloatPair a, BfloatPair b, float& sum) {
    sum += float(a.first) * float(b.first);
    sum += float(a.second) * float(b.second);
  }
};

/// The words of fields of S for tensor cores.
template <class S>
using WordsOf = std::conditional_t<std::is_same_v<S, bfloat16>, BfloatPair, compute_type<S>>;

/// Rounds to 10 bits of mantissa, to nearest, ties away from zero.
KOKKOS_FORCEINLINE_FUNCTION float to_tf32(float value) {
#if defined(__CUDA_ARCH__)
  unsigned word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
  return __uint_as_float(word);
#else
  const auto word = __builtin_bit_cast(std::uint32_t, value);
  if ((word & 0x7f800000u) == 0x7f800000u) return value;
  return __builtin_bit_cast(float, (word + 0x1000u) & 0xffffe000u);
#endif
}

/// `Values` elements for each lane. A float operand has two parts.
template <class T, int Values>
struct Operand {
  T big[held_lanes][Values];
  KOKKOS_FORCEINLINE_FUNCTION void set(int slot, int i, T value, bool) { big[slot][i] = value; }
};
template <int Values>
struct Operand<float, Values> {
  float big[held_lanes][Values], small[held_lanes][Values];
  KOKKOS_FORCEINLINE_FUNCTION void set(int slot, int i, float value, bool split) {
    big[slot][i] = to_tf32(value);
    if (split) small[slot][i] = to_tf32(value - big[slot][i]);
  }
};

/// 16 x 8 operand of words.
template <class E>
struct Left : Operand<E, 4> {
  KOKKOS_FORCEINLINE_FUNCTION static int row(int lane, int i) { return lane / 4 + i % 2 * 8; }
  KOKKOS_FORCEINLINE_FUNCTION static int inner(int lane, int i) { return lane % 4 + i / 2 * 4; }

  /// Loads it from read(row, inner).
  template <class Read>
  KOKKOS_FORCEINLINE_FUNCTION void load(bool split, Read read) {
    each_lane([&](int lane, int slot) {
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < 4; ++i) this->set(slot, i, read(row(lane, i), inner(lane, i)), split);
    });
  }
};

/// 8 x 8 operand of words.
template <class E>
struct Right : Operand<E, 2> {
  KOKKOS_FORCEINLINE_FUNCTION static int inner(int lane, int i) { return lane % 4 + i * 4; }
  KOKKOS_FORCEINLINE_FUNCTION static int column(int lane) { return lane / 4; }

  /// Loads it from read(inner, column).
  template <class Read>
  KOKKOS_FORCEINLINE_FUNCTION void load(bool split, Read read) {
    each_lane([&](int lane, int slot) {
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < 2; ++i) this->set(slot, i, read(inner(lane, i), column(lane)), split);
    });
  }
};

/// 16 x 8 sums.
template <class T>
struct Sum {
  T value[held_lanes][4];

  KOKKOS_FORCEINLINE_FUNCTION static int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  KOKKOS_FORCEINLINE_FUNCTION static int column(int lane, int i) { return lane % 4 * 2 + i % 2; }

  KOKKOS_FORCEINLINE_FUNCTION void clear() {
    for (int slot = 0; slot < held_lanes; ++slot) HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) value[slot][i] = T(0);
  }
  /// Calls visit(row, column, value) for each sum.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void each(Visit visit) const {
    each_lane([&](int lane, int slot) {
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < 4; ++i) visit(row(lane, i), column(lane, i), value[slot][i]);
    });
  }
};

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ void multiply(const float (&a)[1][4], const float (&b)[1][2], float (&c)[1][4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3])
      : "r"(__float_as_uint(a[0][0])), "r"(__float_as_uint(a[0][1])), "r"(__float_as_uint(a[0][2])),
        "r"(__float_as_uint(a[0][3])), "r"(__float_as_uint(b[0][0])), "r"(__float_as_uint(b[0][1])));
}
__device__ __forceinline__ void multiply(const double (&a)[1][4], const double (&b)[1][2], double (&c)[1][4]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(c[0][0]), "+d"(c[0][1]), "+d"(c[0][2]), "+d"(c[0][3])
      : "d"(a[0][0]), "d"(a[0][1]), "d"(a[0][2]), "d"(a[0][3]), "d"(b[0][0]), "d"(b[0][1]));
#else  // the same registers as four products of 8 x 4 by 4 x 8: upper and lower rows, each half of the inner dimension
  const auto product = [](double left, double right, double& first, double& second) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(first), "+d"(second)
        : "d"(left), "d"(right));
  };
  for (int half = 0; half < 2; ++half) {
    product(a[0][2 * half], b[0][half], c[0][0], c[0][1]);
    product(a[0][2 * half + 1], b[0][half], c[0][2], c[0][3]);
  }
#endif
}
__device__ __forceinline__ void multiply(const BfloatPair (&a)[1][4], const BfloatPair (&b)[1][2], float (&c)[1][4]) {
  const auto word = [](const BfloatPair& pair) { return __builtin_bit_cast(unsigned, pair); };
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3])
      : "r"(word(a[0][0])), "r"(word(a[0][1])), "r"(word(a[0][2])), "r"(word(a[0][3])), "r"(word(b[0][0])),
        "r"(word(b[0][1])));
}
#else
template <class E, class T>
void multiply(const E (&a)[warp_lanes][4], const E (&b)[warp_lanes][2], T (&c)[warp_lanes][4]) {
  E left[mma_rows][mma_inner], right[mma_inner][mma_columns];
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < 4; ++i) left[Left<E>::row(lane, i)][Left<E>::inner(lane, i)] = a[lane][i];
    for (int i = 0; i < 2; ++i) right[Right<E>::inner(lane, i)][Right<E>::column(lane)] = b[lane][i];
  }
  for (int lane = 0; lane < warp_lanes; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < mma_inner; ++k)
        WordOf<E>::add_product(left[Sum<T>::row(lane, i)][k], right[k][Sum<T>::column(lane, i)], c[lane][i]);
}
#endif

/// sum += left * right. `split` is what both were loaded with.
template <class E, class T>
KOKKOS_FORCEINLINE_FUNCTION void multiply_add(const Left<E>& left, const Right<E>& right, Sum<T>& sum,
                                              [[maybe_unused]] bool split) {
  if constexpr (std::is_same_v<E, float>)
    if (split) {
      multiply(left.small, right.big, sum.value);
      multiply(left.big, right.small, sum.value);
    }
  multiply(left.big, right.big, sum.value);
}

}  // namespace halogen::kernels::device
