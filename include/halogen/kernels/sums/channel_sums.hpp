// Sums over the points of tiles, for each channel: gradients of parameters, pooled vectors, norms of whole fields.
#pragma once

#include "halogen/kernels/rows/device_rows.hpp"
#include "halogen/kernels/sums/merge.hpp"

namespace halogen::kernels {

/// The product of what two readers read at each point, in double.
template <class A, class B>
struct ProductReader {
  using T = double;
  static constexpr bool computes_points = true;
  A a;
  B b;

  KOKKOS_FUNCTION double at(int n, int c, index_t y, index_t x) const {
    return static_cast<double>(a.at(n, c, y, x)) * static_cast<double>(b.at(n, c, y, x));
  }
  void load_row(int n, int c, index_t y, index_t x0, index_t count, double* line) const {
    for (index_t x = 0; x < count; ++x) line[x] = at(n, c, y, x0 + x);
  }
};

/// The sums of all points of each channel over the tiles of one block, in double. Partial results: [block][channel].
/// If there are few blocks, several teams share the channels of a block.
template <class ExecutionSpace, class Points>
struct ChannelSums {
  using T = typename Points::T;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Points points;
  int channels = 0;
  Tiling tiling;
  int blocks = 1;
  double* partial = nullptr;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, index_t{blocks} * shares(), *this,
                 Scratch::bytes_of<T>(static_cast<std::size_t>(tiling.tile_columns)), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr int least_teams = device::runs_on<ExecutionSpace> ? 264 : 64;

  KOKKOS_FUNCTION int shares() const {
    const int wanted = (least_teams + blocks - 1) / (blocks < 1 ? 1 : blocks);
    return wanted < 1 ? 1 : wanted < channels ? wanted : channels < 1 ? 1 : channels;
  }
  KOKKOS_FUNCTION int block_of(const Team& team) const { return static_cast<int>(team.league_rank()) / shares(); }
  /// The channels of a team.
  KOKKOS_FUNCTION Interval share_of(const Team& team) const {
    const index_t share = static_cast<int>(team.league_rank()) % shares();
    return {channels * share / shares(), channels * (share + 1) / shares()};
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, Scratch::bytes_of<T>(static_cast<std::size_t>(tiling.tile_columns)));
    T* line = scratch.take<T>(static_cast<std::size_t>(tiling.tile_columns));
    double* result = partial + index_t{block_of(team)} * channels;
    const Interval tiles = tiling.of_block(block_of(team), blocks), own = share_of(team);
    std::fill(result + own.begin, result + own.end, 0.0);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (int c = static_cast<int>(own.begin); c < own.end; ++c)
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
          points.load_row(tile.sample, c, y, tile.columns.begin, tile.columns.size(), line);
          result[c] += detail::sum_of_row(line, tile.columns.size());
        }
    }
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    double* result = partial + index_t{block_of(team)} * channels;
    const Interval tiles = tiling.of_block(block_of(team), blocks), own = share_of(team);
    device::each_of_warps(team, static_cast<int>(own.size()), [&](int at) {
      const int c = static_cast<int>(own.begin) + at;
      double total = 0, unused = 0;
      for (index_t t = tiles.begin; t < tiles.end; ++t) {
        const Tile tile(tiling, t);
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
          const auto row = device::row_of(points, tile.sample, c, y, tile.columns.begin);
          device::each_of_lanes(static_cast<int>(tile.columns.size()),
                                [&](int x) { total += static_cast<double>(row.at(x)); });
        }
      }
      device::sum_over_lanes(total, unused);
      if (device::is_first_lane()) result[c] = total;
    });
  }
};

}  // namespace halogen::kernels
