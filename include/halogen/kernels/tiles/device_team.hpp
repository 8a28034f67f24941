// Device parts of kernels: teams of warps. A thread of a team is a warp of 32 lanes. On the host it is one thread that
// goes through the 32 lanes itself. So the same code runs, and is tested, on both.
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"

// Loops that index arrays in registers are unrolled by the device's compiler.
#if defined(__CUDA_ARCH__)
#define HALOGEN_DEVICE_UNROLL _Pragma("unroll")
#define HALOGEN_DEVICE_ROLLED _Pragma("unroll 1")
#else
#define HALOGEN_DEVICE_UNROLL
#define HALOGEN_DEVICE_ROLLED
#endif

// -DHALOGEN_DEVICE_KERNELS=n, for tests: the device parts run on the host, in teams of n threads if there are so many.
// Otherwise each part runs where it belongs.
#if !defined(HALOGEN_DEVICE_KERNELS)
#define HALOGEN_DEVICE_KERNELS 0
#endif
#if HALOGEN_DEVICE_KERNELS > 0
#define HALOGEN_HOST_PART(code)
#define HALOGEN_DEVICE_PART(code) code
#else
#define HALOGEN_HOST_PART(code) KOKKOS_IF_ON_HOST((code))
#define HALOGEN_DEVICE_PART(code) KOKKOS_IF_ON_DEVICE((code))
#endif

namespace halogen::kernels::device {

inline constexpr int warp_lanes = 32;
inline constexpr int team_warps = 8;  ///< 256 threads of the device
/// At least two teams on a multiprocessor: one multiplies while the other fills its scratch. A thread has 128
/// registers.
using LaunchBounds = Kokkos::LaunchBounds<warp_lanes * team_warps, 2>;
/// Scratch of one team. 48 KiB need no opt-in, and Kokkos uses a few words of them.
inline constexpr std::size_t scratch_limit = 48 * 1024 - 256;

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
inline constexpr int held_lanes = 1;
#else
inline constexpr int held_lanes = warp_lanes;
#endif

template <class ExecutionSpace>
inline constexpr bool is_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ExecutionSpace::memory_space>::accessible;

/// Whether kernels on this space run their device parts.
template <class ExecutionSpace>
inline constexpr bool runs_on = HALOGEN_DEVICE_KERNELS > 0 || !is_host<ExecutionSpace>;

#if HALOGEN_DEVICE_KERNELS > 0
static_assert(HALOGEN_DEVICE_KERNELS <= team_warps, "scratch is laid out for device::team_warps threads of a team");
inline constexpr int vector_length = 1;
template <class ExecutionSpace>
int team_size(const ExecutionSpace& space) {
  return space.concurrency() < HALOGEN_DEVICE_KERNELS ? space.concurrency() : HALOGEN_DEVICE_KERNELS;
}
#else
inline constexpr int vector_length = warp_lanes;
template <class ExecutionSpace>
constexpr int team_size(const ExecutionSpace&) {
  return team_warps;
}
#endif

/// Calls f(lane, slot) for the lanes of this warp that the calling thread computes. The values of a lane are at [slot]
/// of arrays with held_lanes elements.
template <class F>
KOKKOS_FORCEINLINE_FUNCTION void each_lane(F f) {
  KOKKOS_IF_ON_DEVICE((f(static_cast<int>(threadIdx.x), 0);))
  KOKKOS_IF_ON_HOST((for (int lane = 0; lane < warp_lanes; ++lane) f(lane, lane);))
}

/// Calls f(i) for this warp's share of [0, count).
template <class Team, class F>
KOKKOS_FORCEINLINE_FUNCTION void each_of_warps(const Team& team, int count, F f) {
  HALOGEN_DEVICE_ROLLED
  for (int i = team.team_rank(); i < count; i += team.team_size()) f(i);
}

/// Calls f(i) for [0, count), with neighbouring i in neighbouring lanes.
template <class F>
KOKKOS_FORCEINLINE_FUNCTION void each_of_lanes(int count, F f) {
#if defined(__CUDA_ARCH__)
  HALOGEN_DEVICE_ROLLED
  for (int i = static_cast<int>(threadIdx.x); i < count; i += warp_lanes) f(i);
#else
  for (int i = 0; i < count; ++i) f(i);
#endif
}

/// store(i, load(i)) for [0, count), with neighbouring i in neighbouring lanes. AtOnce loads of a lane are under way
/// before the first store, because the compiler could not move a load before a store.
template <int AtOnce, class T, class Load, class Store>
KOKKOS_FORCEINLINE_FUNCTION void transfer_by_lanes(int count, Load load, Store store) {
#if defined(__CUDA_ARCH__)
  HALOGEN_DEVICE_ROLLED
  for (int i = static_cast<int>(threadIdx.x); i < count; i += AtOnce * warp_lanes) {
    T value[AtOnce];
    HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < AtOnce; ++k)
      if (i + k * warp_lanes < count) value[k] = load(i + k * warp_lanes);
    HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < AtOnce; ++k)
      if (i + k * warp_lanes < count) store(i + k * warp_lanes, value[k]);
  }
#else
  for (int i = 0; i < count; ++i) store(i, load(i));
#endif
}

/// Two sums over the lanes of a warp, in every lane. Halves of the warp are added in a fixed order.
KOKKOS_FORCEINLINE_FUNCTION void sum_over_lanes(double& first, double& second) {
#if defined(__CUDA_ARCH__)
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
    first += __shfl_xor_sync(0xffffffffu, first, distance);
    second += __shfl_xor_sync(0xffffffffu, second, distance);
  }
#else
  static_cast<void>(first), static_cast<void>(second);  // one thread has computed all lanes
#endif
}

/// The sum and the largest of a warp's lanes, in every lane. Halves of the warp are joined in a fixed order.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T sum_of_lanes(T value) {
#if defined(__CUDA_ARCH__)
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
#endif
  return value;
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T largest_of_lanes(T value) {
#if defined(__CUDA_ARCH__)
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, value, distance);
    value = value < other ? other : value;
  }
#endif
  return value;
}

/// After this, lanes of a warp can read what its other lanes wrote to scratch.
KOKKOS_FORCEINLINE_FUNCTION void meet_lanes() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#endif
}

/// Whether the calling thread is the one of its warp that writes what all lanes have.
KOKKOS_FORCEINLINE_FUNCTION bool is_first_lane() {
  KOKKOS_IF_ON_DEVICE((return threadIdx.x == 0;))
  KOKKOS_IF_ON_HOST((return true;))
}

}  // namespace halogen::kernels::device
