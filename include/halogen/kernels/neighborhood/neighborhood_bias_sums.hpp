// The gradient of a bias that attention to a neighbourhood adds. For each head and distance, it is the sum of s over
// all queries of the launch and the keys at this distance. s: kernels/neighborhood/neighborhood_attention_backward.hpp.
// Accumulation: in double, over the tiles of a block in their order and over queries in row order; on a device, by
// lanes.
#pragma once

#include "halogen/kernels/neighborhood/neighborhood_attention_backward.hpp"

namespace halogen::kernels {

/// Partial results: [block][distance][head]. Gradients is a NeighborhoodGradients with a RelativeBias.
template <class ExecutionSpace, class S, class Gradients>
struct NeighborhoodBiasSums {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Gradients gradients;
  Tiling tiling;
  int blocks = 1, first_block = 0, last_block = 1;
  double* partial = nullptr;

  KOKKOS_FUNCTION index_t partial_size() const { return gradients.scores.bias.size(); }

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, last_block - first_block, *this, gradients.scratch_bytes(), 0);
  }
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int block = first_block + static_cast<int>(team.league_rank());
    double* sums = partial + block * partial_size();
    HALOGEN_HOST_PART(run_on_host(team, block, sums);)
    HALOGEN_DEVICE_PART(run_on_device(team, block, sums);)
  }

 private:
  KOKKOS_FUNCTION const HeadWindows& windows() const { return gradients.scores.windows; }

  void run_on_host(const Team& team, int block, double* sums) const {
    Scratch scratch = Scratch::of(team, 1, gradients.scratch_bytes());
    auto parts = gradients.parts_of(scratch);
    std::fill_n(sums, partial_size(), 0.0);
    const Interval tiles = tiling.of_block(block, blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (int head = 0; head < windows().heads; ++head)
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) add_row(tile, head, y, parts, sums);
    }
  }
  template <class Parts>
  void add_row(const Tile& tile, int head, index_t y, Parts& parts, double* sums) const {
    const PlaneAt plane = windows().planes.input(tile.sample, 0);
    for (index_t x = tile.columns.begin; x < tile.columns.end;) {
      PointRun run = windows().template run_from<T>(x, tile.columns.end);
      run.sample = plane.sample, run.z = plane.z, run.y = y;
      gradients.load_queries(head, run, parts);
      windows().template for_each_row<false>(run.z, run.y, [&](index_t at_z, index_t at_y) {
        gradients.row_of_keys(head, run, at_z, at_y, parts);
        gradients.scores.for_each_distance(head, run, at_z, at_y, [&](index_t t, index_t i, index_t place) {
          sums[place] += static_cast<double>(parts.slopes.row(t)[i]);
        });
      });
      x += run.count;
    }
  }

  /// Each warp sums one number of the table. Its lanes are the queries of a row.
  KOKKOS_FUNCTION void run_on_device(const Team& team, int block, double* sums) const {
    const auto& bias = gradients.scores.bias;
    const Interval tiles = tiling.of_block(block, blocks);
    device::each_of_warps(team, static_cast<int>(partial_size()), [&](int place) {
      const int head = place % bias.heads, row = place / bias.heads;
      const index_t across = row % bias.distances(2) - bias.kernel[2] + 1;
      const index_t down = row / bias.distances(2) % bias.distances(1) - bias.kernel[1] + 1;
      const index_t planes = row / bias.distances(2) / bias.distances(1) - bias.kernel[0] + 1;
      double sum = 0;
      for (index_t t = tiles.begin; t < tiles.end; ++t) {
        const Tile tile(tiling, t);
        const PlaneAt plane = windows().planes.input(tile.sample, 0);
        if (!sees(0, plane.z, plane.z - planes)) continue;
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
          if (!sees(1, y, y - down)) continue;
          device::each_of_lanes(static_cast<int>(tile.columns.size()), [&](int i) {
            const index_t x = tile.columns.begin + i;
            if (!sees(2, x, x - across)) return;
            const auto own = gradients.query_at(head, plane, y, x);
            if (!own.counts) return;
            sum += static_cast<double>(gradients.slope(head, own, plane, y, x, plane.z - planes, y - down, x - across));
          });
        }
      }
      sum = device::sum_of_lanes(sum);
      if (device::is_first_lane()) sums[place] = sum;
    });
  }
  KOKKOS_FUNCTION bool sees(int d, index_t query, index_t key) const {
    const SpacedPoints keys = windows().template seen<false>(d, query);
    return key >= keys.first && key < keys.first + keys.count;
  }
};

}  // namespace halogen::kernels
