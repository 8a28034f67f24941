// Tiles of an output. Each has one team, on every execution space.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>

#include "halogen/core/any_functor.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/launched.hpp"
#include "halogen/kernels/rows/row_sums.hpp"
#include "halogen/kernels/tiles/device_team.hpp"

namespace halogen::kernels {

/// The points that a rank computes, divided into tiles of rows and columns, for each sample.
struct Tiling {
  Interval rows, columns;
  int samples = 1;  ///< for fields with depth: the planes of all samples
  index_t tile_rows = 8, tile_columns = 1;
  index_t down = 1, across = 1;  ///< tiles per sample
  const int* order = nullptr;    ///< if only some tiles are launched, or in another order: their numbers
  index_t first = 0, last = -1;  ///< a part of the order; all tiles if negative

  Tiling() = default;
  Tiling(Interval rows_, Interval columns_, int samples_, index_t tile_rows_, index_t tile_columns_)
      : rows(rows_),
        columns(columns_),
        samples(samples_),
        tile_rows(tile_rows_),
        tile_columns(tile_columns_),
        down(ceil_div(rows_.size(), tile_rows_)),
        across(ceil_div(columns_.size(), tile_columns_)) {}

  HALOGEN_FUNCTION index_t per_sample() const { return down * across; }
  HALOGEN_FUNCTION index_t count() const { return samples * per_sample(); }
  HALOGEN_FUNCTION index_t tiles_run() const { return last < 0 ? count() : last - first; }
  HALOGEN_FUNCTION index_t number(index_t team) const { return order == nullptr ? first + team : order[first + team]; }

  /// The tiles of block `block` of `blocks`. It counts all tiles and ignores the order.
  HALOGEN_FUNCTION Interval of_block(index_t block, index_t blocks) const {
    return {count() * block / blocks, count() * (block + 1) / blocks};
  }

  Tiling part(const int* numbers, index_t begin, index_t end) const {
    Tiling result = *this;
    result.order = numbers, result.first = begin, result.last = end;
    return result;
  }
};

struct Tile {
  int sample;
  Interval rows, columns;

  HALOGEN_FUNCTION Tile(const Tiling& tiling, index_t index) {
    sample = static_cast<int>(index / tiling.per_sample());
    const index_t within = index % tiling.per_sample();
    rows = part(tiling.rows, tiling.tile_rows, within / tiling.across);
    columns = part(tiling.columns, tiling.tile_columns, within % tiling.across);
  }

 private:
  HALOGEN_FUNCTION static Interval part(const Interval& whole, index_t size, index_t i) {
    const index_t begin = whole.begin + i * size;
    return {begin, begin + size < whole.end ? begin + size : whole.end};
  }
};

/// One launch of functor(team). On the host a team has one thread and `host_bytes` of scratch. On a device it has
/// device::team_warps warps and `device_bytes`. Throws std::length_error if there are more teams than an int can count.
/// A functor with `host_alone` has other kernels for a device. There this function is only listed for it
/// (compiled/list.inc), and nobody calls it.
template <class ExecutionSpace, class Functor>
HALOGEN_NOINLINE void launch_tiles(const ExecutionSpace& space, const char* label, index_t teams,
                                   const Functor& functor, std::size_t host_bytes, std::size_t device_bytes) {
  if (teams == 0) return;
  if (teams > std::numeric_limits<int>::max())
    throw std::length_error(std::string(label) + ": " + std::to_string(teams) + " teams in one launch, at most " +
                            std::to_string(std::numeric_limits<int>::max()) +
                            ": cut the field over more ranks, or its batch");
  const int league = static_cast<int>(teams);
  if constexpr (device::runs_on<ExecutionSpace> && requires { Functor::host_alone; }) {
    throw std::logic_error(std::string(label) + ": a kernel of the host was launched on a device");
  } else if constexpr (device::runs_on<ExecutionSpace>) {
    static_assert(sizeof(Functor) < 3840, "a kernel's functor fits into its 4 KiB of arguments");
    using Policy = Kokkos::TeamPolicy<ExecutionSpace, device::LaunchBounds>;
    Policy policy(space, league, device::team_size(space), device::vector_length);
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(device_bytes > 0 ? device_bytes + 64 : 0)));
    // The functor is the kernel's argument. Through constant memory, a launch would wait for the launch before it.
    Kokkos::parallel_for(
        label, Kokkos::Experimental::require(policy, Kokkos::Experimental::WorkItemProperty::HintLightWeight), functor);
    halogen::detail::check_launched(label);
  } else {
    if (host_bytes > std::size_t{std::numeric_limits<int>::max()})
      throw std::length_error(std::string(label) + ": rows take " + std::to_string(host_bytes) +
                              " bytes of scratch memory a thread, at most " +
                              std::to_string(std::numeric_limits<int>::max()) + ": cut the field's columns");
    Kokkos::TeamPolicy<ExecutionSpace> policy(space, league, 1);
    policy.set_scratch_size(1, Kokkos::PerTeam(static_cast<int>(host_bytes)));
    if constexpr (halogen::detail::launches_wait<ExecutionSpace>) {
      using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
      const halogen::detail::AnyFunctor<const Team&> any{
          &functor, [](const void* of, const Team& team) { (*static_cast<const Functor*>(of))(team); }};
      Kokkos::parallel_for(label, policy, any);
    } else {
      Kokkos::parallel_for(label, policy, functor);
    }
  }
}

/// Divides a team's scratch into typed arrays.
class Scratch {
 public:
  template <class Team>
  static Scratch of(const Team& team, int level, std::size_t bytes) {
    return Scratch(static_cast<std::byte*>(team.team_scratch(level).get_shmem(bytes)));
  }
  KOKKOS_FUNCTION explicit Scratch(std::byte* begin) : next_(begin) {}

  template <class T>
  KOKKOS_FUNCTION T* take(std::size_t count) {
    T* result = reinterpret_cast<T*>(next_);
    next_ += aligned(count * sizeof(T));
    return result;
  }
  template <class T>
  static std::size_t bytes_of(std::size_t count) {
    return aligned(count * sizeof(T));
  }

 private:
  KOKKOS_FUNCTION static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::byte* next_;
};

}  // namespace halogen::kernels
