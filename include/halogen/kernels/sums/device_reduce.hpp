// Device: sums over many values by one team. The order depends only on the team's size: threads take every so-many-th
// value, lanes are merged by halves, and warps one after the other.
#pragma once

#include "halogen/kernels/rows/row_sums.hpp"
#include "halogen/kernels/tiles/device_team.hpp"

namespace halogen::kernels::device {

inline constexpr std::size_t reduce_bytes = team_warps * sizeof(RowSums);

/// Where warps store their sums. Call this once.
template <class Team>
KOKKOS_FORCEINLINE_FUNCTION RowSums* reduce_scratch(const Team& team) {
  return static_cast<RowSums*>(team.team_scratch(0).get_shmem_aligned(std::size_t{reduce_bytes}, 16));
}

/// add(i, sums) adds value i of [0, count); merge(sums, others) joins two sums. Every thread gets the result.
template <class Team, class Add, class Merge>
KOKKOS_FORCEINLINE_FUNCTION RowSums reduce(const Team& team, RowSums* of_warps, index_t count, Add add, Merge merge) {
  RowSums own;
#if defined(__CUDA_ARCH__)
  for (index_t i = team.team_rank() * warp_lanes + static_cast<int>(threadIdx.x); i < count;
       i += warp_lanes * team.team_size())
    add(i, own);
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
    const RowSums other{__shfl_down_sync(0xffffffffu, own.first, distance),
                        __shfl_down_sync(0xffffffffu, own.second, distance),
                        __shfl_down_sync(0xffffffffu, own.third, distance)};
    merge(own, other);
  }
#else
  for (index_t i = team.team_rank(); i < count; i += team.team_size()) add(i, own);
#endif
  team.team_barrier();  // nobody reads the last result any more
  if (is_first_lane()) of_warps[team.team_rank()] = own;
  team.team_barrier();
  RowSums all = of_warps[0];
  for (int warp = 1; warp < team.team_size(); ++warp) merge(all, of_warps[warp]);
  return all;
}

/// Sums of `first` and `second`.
template <class Team, class Add>
KOKKOS_FORCEINLINE_FUNCTION RowSums sum(const Team& team, RowSums* of_warps, index_t count, Add add) {
  return reduce(team, of_warps, count, add, [](RowSums& sums, const RowSums& other) { sums.add(other); });
}

/// Whether the calling thread writes what the whole team knows.
template <class Team>
KOKKOS_FORCEINLINE_FUNCTION bool is_first_thread(const Team& team) {
  return team.team_rank() == 0 && is_first_lane();
}

}  // namespace halogen::kernels::device
