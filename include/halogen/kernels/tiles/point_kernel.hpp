// Kernels that compute all channels of a point from all channels of the same point.
#pragma once

#include <algorithm>

#include "halogen/kernels/rows/views.hpp"
#include "halogen/kernels/tiles/device_tile_output.hpp"

namespace halogen::kernels {

/// points_at_once for kernels that have all these channels in scratch. Fewer channels allow more points. This matters
/// because rows of different channels are pages apart, and a short piece of each is slow to read. The pieces stay in
/// L2.
inline constexpr index_t most_points_at_once = 512;
template <class T>
constexpr index_t points_at_once_of(int channels) {
  const index_t fitting = (index_t{128} << 10) / (std::max(1, channels) * static_cast<index_t>(sizeof(T)));
  return std::clamp(fitting / points_at_once * points_at_once, points_at_once, most_points_at_once);
}

/// Runs a computation over all channels of a point. It works on pieces of rows, with all channels in scratch: one array
/// of all channels for each of Point::operands, the second and what follows it one after the other. load() fills two of
/// them at most. If `point` has tile_sums(tile), on the host its compute() also gets the memory where it adds sums of
/// each tile.
template <class ExecutionSpace, class S, class Point>
struct PointKernel {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Point point;
  TileOutput<S> output;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    device::run_points(team, output, output.number(team),
                       [&](int n, int c, index_t y, index_t x) { return point.at(n, c, y, x); });
  }

  index_t piece_size() const { return points_at_once_of<T>(point.channels); }
  std::size_t values() const { return static_cast<std::size_t>(point.channels * piece_size()); }
  std::size_t outputs() const { return static_cast<std::size_t>(output.channels); }
  std::size_t host_bytes() const {
    return Point::operands * Scratch::bytes_of<T>(values()) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(2 * piece_size())) + Scratch::bytes_of<RowSums>(outputs());
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    const index_t piece = piece_size();
    T* rows = scratch.take<T>(values());
    T* second = Point::operands > 1 ? scratch.take<T>((Point::operands - 1) * values()) : nullptr;
    T* sums_of_points = scratch.take<T>(static_cast<std::size_t>(2 * piece));
    RowSums* sums = scratch.take<RowSums>(outputs());
    std::fill_n(sums, output.channels, RowSums{});
    const Tile tile = output.tile(team);
    const int n = tile.sample;
    [[maybe_unused]] double* tile_sums = nullptr;
    if constexpr (requires { point.tile_sums(index_t{}); }) tile_sums = point.tile_sums(output.number(team));
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      for (index_t x = tile.columns.begin; x < tile.columns.end; x += piece) {
        const index_t count = std::min(piece, tile.columns.end - x);
        for (int c = 0; c < point.channels; ++c)
          point.load(n, c, y, x, count, rows + c * piece, second == nullptr ? nullptr : second + c * piece);
        if constexpr (requires { point.tile_sums(index_t{}); })
          point.compute(rows, second, sums_of_points, piece, count, tile_sums);
        else
          point.compute(rows, second, sums_of_points, piece, count);
        for (int o = 0; o < output.channels; ++o) output.put_row(n, o, y, x, count, rows + (point.first + o) * piece);
      }
      for (int o = 0; o < output.channels; ++o) output.sum_row(n, o, y, tile.columns, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }
};

}  // namespace halogen::kernels
