// sum += left * right of 16 x 8 and 8 x 8 by one warp: mma.sync m16n8k8 of tf32 (float) or f64 (double), sums in the
// value's own type. The only file that knows the instruction and which lane holds which element; elsewhere than on the
// device the same fragments lie in plain arrays, lane by lane, and the product is a loop.
//
// float: an operand has 10 bits of mantissa on the tensor cores. Split in two, x = big + small, and with three products
// (big big, big small, small big) the relative error of a product is at most 2^-21 (float's own 2^-24); unsplit it is
// 2^-10. Infinite operands give NaN where split.
#pragma once

#include "halogen/kernels/device/team.hpp"

namespace halogen::kernels::device {

inline constexpr int mma_rows = 16, mma_columns = 8, mma_inner = 8;

/// To 10 bits of mantissa, to nearest, ties away from zero.
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

/// `Values` elements a lane; float operands in two parts.
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

/// 16 x 8 operand.
template <class T>
struct Left : Operand<T, 4> {
  KOKKOS_FORCEINLINE_FUNCTION static int row(int lane, int i) { return lane / 4 + i % 2 * 8; }
  KOKKOS_FORCEINLINE_FUNCTION static int inner(int lane, int i) { return lane % 4 + i / 2 * 4; }

  /// From read(row, inner).
  template <class Read>
  KOKKOS_FORCEINLINE_FUNCTION void load(bool split, Read read) {
    each_lane([&](int lane, int slot) {
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < 4; ++i) this->set(slot, i, read(row(lane, i), inner(lane, i)), split);
    });
  }
};

/// 8 x 8 operand.
template <class T>
struct Right : Operand<T, 2> {
  KOKKOS_FORCEINLINE_FUNCTION static int inner(int lane, int i) { return lane % 4 + i * 4; }
  KOKKOS_FORCEINLINE_FUNCTION static int column(int lane) { return lane / 4; }

  /// From read(inner, column).
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
  /// Calls visit(row, column, value).
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
#if __CUDA_ARCH__ < 900
#error "Halogen's device kernels need compute capability 9.0 (-arch=sm_90): mma.m16n8k8 of double"
#endif
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(c[0][0]), "+d"(c[0][1]), "+d"(c[0][2]), "+d"(c[0][3])
      : "d"(a[0][0]), "d"(a[0][1]), "d"(a[0][2]), "d"(a[0][3]), "d"(b[0][0]), "d"(b[0][1]));
}
#else
template <class T>
void multiply(const T (&a)[warp_lanes][4], const T (&b)[warp_lanes][2], T (&c)[warp_lanes][4]) {
  T left[mma_rows][mma_inner], right[mma_inner][mma_columns];
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < 4; ++i) left[Left<T>::row(lane, i)][Left<T>::inner(lane, i)] = a[lane][i];
    for (int i = 0; i < 2; ++i) right[Right<T>::inner(lane, i)][Right<T>::column(lane)] = b[lane][i];
  }
  for (int lane = 0; lane < warp_lanes; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < mma_inner; ++k)
        c[lane][i] += left[Sum<T>::row(lane, i)][k] * right[k][Sum<T>::column(lane, i)];
}
#endif

/// sum += left * right; `split` as both were loaded.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void multiply_add(const Left<T>& left, const Right<T>& right, Sum<T>& sum,
                                              [[maybe_unused]] bool split) {
  if constexpr (std::is_same_v<T, float>)
    if (split) {
      multiply(left.small, right.big, sum.value);
      multiply(left.big, right.small, sum.value);
    }
  multiply(left.big, right.big, sum.value);
}

}  // namespace halogen::kernels::device
