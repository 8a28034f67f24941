// Macros and the index type that every room uses; no Kokkos, no MPI.
#pragma once

#include <cstddef>
#include <cstdint>

/// HALOGEN_FUNCTION marks a function for host and device; KOKKOS_FUNCTION's meaning without its headers.
#if defined(__CUDACC__)
#define HALOGEN_FUNCTION __host__ __device__
#else
#define HALOGEN_FUNCTION
#endif

// nvcc's front end does not know the pragma; its host code is correct, only slower.
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__clang__)
#define HALOGEN_UNROLL _Pragma("GCC unroll 16")
#elif defined(__clang__)
#define HALOGEN_UNROLL _Pragma("unroll")
#else
#define HALOGEN_UNROLL
#endif

// The library halogen::compiled (docs/install.md) holds the bodies of ordinary functions. A program that links it is
// compiled with HALOGEN_COMPILED=1 and sees their declarations alone; one source of the library defines
// HALOGEN_COMPILING_BODIES and emits them. Everyone else sees inline functions.
#if !defined(HALOGEN_COMPILED)
#define HALOGEN_COMPILED 0
#endif
#if defined(HALOGEN_COMPILING_BODIES)
#define HALOGEN_BODIES 1
#define HALOGEN_INLINE
#else
#define HALOGEN_BODIES !HALOGEN_COMPILED
#define HALOGEN_INLINE inline
#endif

/// HALOGEN_NOINLINE marks what is compiled once for all its callers.
#if defined(__GNUC__)
#define HALOGEN_NOINLINE __attribute__((noinline))
#else
#define HALOGEN_NOINLINE
#endif

namespace halogen {

/// Global extents, offsets and counts: 64-bit everywhere, since one field may exceed 2^31 points.
using index_t = std::int64_t;

/// Floor and ceiling of a / b for b > 0 and any sign of a. Halo arithmetic meets negative positions.
HALOGEN_FUNCTION constexpr index_t floor_div(index_t a, index_t b) {
  const index_t quotient = a / b;  // one division: a device has no instruction for it
  return quotient - (quotient * b > a ? 1 : 0);
}
HALOGEN_FUNCTION constexpr index_t ceil_div(index_t a, index_t b) { return -floor_div(-a, b); }
HALOGEN_FUNCTION constexpr index_t floor_mod(index_t a, index_t b) { return a - floor_div(a, b) * b; }

}  // namespace halogen
