// Partial sums become sums. Every sum over points goes this way: a kernel sums the points of a tile or of a block of
// tiles, these functions join what the tiles of a rank give, and tensor/rank_sums.hpp joins what the ranks give. The
// order in which partial sums are joined is decided here alone.
#pragma once

#include <type_traits>

#include "halogen/kernels/sums/device_reduce.hpp"
#include "halogen/kernels/tiles/tiles.hpp"

namespace halogen::kernels {

/// How one partial sum is joined to another: as summands.
struct Add {
  HALOGEN_FUNCTION void operator()(double& sum, double other) const { sum += other; }
  HALOGEN_FUNCTION void operator()(RowSums& sum, double other) const { sum.first += other; }
  HALOGEN_FUNCTION void operator()(RowSums& sum, const RowSums& other) const { sum.add(other); }
};
/// As the moments of disjoint sets of points.
struct JoinMoments {
  HALOGEN_FUNCTION void operator()(RowSums& sum, const RowSums& other) const { sum.merge_moments(other); }
};

/// Joins part(0), part(1), ..., part(count - 1) in this order. One thread does it.
template <class Sum, class Join = Add, class Part>
HALOGEN_FUNCTION Sum merged(index_t count, const Part& part) {
  Sum sum{};
  for (index_t k = 0; k < count; ++k) Join{}(sum, part(k));
  return sum;
}

/// Scratch of a team that joins. Call this once.
template <class Team>
KOKKOS_FORCEINLINE_FUNCTION RowSums* merge_scratch([[maybe_unused]] const Team& team) {
  HALOGEN_HOST_PART(return nullptr;)
  HALOGEN_DEVICE_PART(return device::reduce_scratch(team);)
}
/// The same by a team, of which every thread gets the result. On a device, device::reduce says the order.
template <class Join = Add, class Team, class Part>
KOKKOS_FORCEINLINE_FUNCTION RowSums merged_by([[maybe_unused]] const Team& team, [[maybe_unused]] RowSums* scratch,
                                              index_t count, const Part& part) {
  HALOGEN_HOST_PART(return (merged<RowSums, Join>(count, part));)
  HALOGEN_DEVICE_PART(return device::reduce(
                                 team, scratch, count, [&](index_t k, RowSums& own) { Join{}(own, part(k)); }, Join{});)
}
/// Whether the calling thread writes what the whole team knows.
template <class Team>
KOKKOS_FORCEINLINE_FUNCTION bool writes_merged([[maybe_unused]] const Team& team) {
  HALOGEN_HOST_PART(return true;)
  HALOGEN_DEVICE_PART(return device::is_first_thread(team);)
}

/// Numbers in groups of `row`. Each group begins `row_stride` after the group before.
struct Groups {
  index_t row = 0, row_stride = 0;  ///< 0: all numbers are one group

  HALOGEN_FUNCTION index_t at(index_t i) const {
    return row == 0 ? i : i / row * row_stride + i % row;  // a division is slower than the sum
  }
};

/// result[i] = the join of `count` partial sums, the k-th of which is partial[i + k * stride], rounded once. `from` and
/// `to` say where number i lies, if not at i.
template <class Result, class Partial = double, class Join = Add>
struct Merge {
  using Sum = std::conditional_t<std::is_same_v<Partial, RowSums>, RowSums, double>;
  const Partial* partial;
  index_t stride, count;
  Result* result;
  Groups from = {}, to = {};

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const Partial* first = partial + from.at(i);
    result[to.at(i)] =
        static_cast<Result>(merged<Sum, Join>(count, [&](index_t k) { return static_cast<Sum>(first[k * stride]); }));
  }

  /// Host: several results at once, so that partial sums are read as they lie.
  void run(index_t begin, index_t end) const {
    constexpr index_t together = 64;
    for (index_t first = begin; first < end; first += together) {
      const index_t size = end - first < together ? end - first : together;
      if (from.row != 0 || size < together) {
        for (index_t i = first; i < first + size; ++i) operator()(i);
        continue;
      }
      Sum sums[together] = {};
      for (index_t k = 0; k < count; ++k)
        for (index_t i = 0; i < together; ++i) Join{}(sums[i], static_cast<Sum>(partial[first + i + k * stride]));
      for (index_t i = 0; i < together; ++i) result[to.at(first + i)] = static_cast<Result>(sums[i]);
    }
  }
};

/// result[i] = the join of parts.at(i, 0), ..., parts.at(i, parts.count() - 1). One team for each result: for results
/// of many parts.
template <class ExecutionSpace, class Parts>
struct MergeByTeams {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  Parts parts;
  typename Parts::Result* result;

  void launch(const ExecutionSpace& space, const char* label, index_t results) const {
    launch_tiles(space, label, results, *this, 0, device::reduce_bytes);
  }
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t i = team.league_rank();
    const RowSums sums = merged_by<typename Parts::Join>(team, merge_scratch(team), parts.count(),
                                                         [&](index_t k) { return parts.at(i, k); });
    if (!writes_merged(team)) return;
    if constexpr (std::is_same_v<typename Parts::Result, RowSums>)
      result[i] = sums;
    else
      result[i] = sums.first;
  }
};

/// `size` numbers that lie one behind the other, to each sum.
struct ArrayParts {
  using Result = double;
  using Join = Add;
  const double* partial;
  index_t size;

  KOKKOS_FUNCTION index_t count() const { return size; }
  KOKKOS_FUNCTION double at(index_t i, index_t k) const { return partial[i * size + k]; }
};
/// result[i] = the sum of these numbers, for `results` sums.
template <class ExecutionSpace>
void sum_arrays(const ExecutionSpace& space, const char* label, const double* partial, index_t size, double* result,
                index_t results = 1) {
  MergeByTeams<ExecutionSpace, ArrayParts>{{partial, size}, result}.launch(space, label, results);
}

}  // namespace halogen::kernels
