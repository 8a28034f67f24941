// Device: how a team writes its results. First the points one by one, with base and mask, then the sums of the finished
// tile.
#pragma once

#include "halogen/kernels/tiles/device_team.hpp"
#include "halogen/kernels/tiles/tile_output.hpp"

namespace halogen::kernels::device {

/// What is stored for a computed point. The base is added, then the mask's function passes it back.
template <class S>
KOKKOS_FORCEINLINE_FUNCTION S finished(const TileOutput<S>& output, int n, int c, index_t y, index_t x,
                                       compute_type<S> value) {
  using T = compute_type<S>;
  if (output.accumulate) value = output.base.at(n, c, y, x) + value;
  const TensorView<S>& mask = output.epilogue.mask;
  if (mask.data != nullptr) value = passed_back(value, T(mask.at(n, c, y, x)), output.epilogue.mask_function);
  return static_cast<S>(value);
}

/// Moments of one channel relative to the tile's first value, by one warp.
template <class S>
KOKKOS_FORCEINLINE_FUNCTION RowSums tile_moments(const TensorView<S>& tensor, const Tile& tile, int c) {
  const int columns = static_cast<int>(tile.columns.size());
  const double about = static_cast<double>(tensor.at(tile.sample, c, tile.rows.begin, tile.columns.begin));
  double sum = 0, squares = 0;
  for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
    const S* row = &tensor.at(tile.sample, c, y, tile.columns.begin);
    each_of_lanes(columns, [&](int x) {
      const double d = static_cast<double>(row[x]) - about;
      sum += d, squares += d * d;
    });
  }
  sum_over_lanes(sum, squares);
  const double points = static_cast<double>(tile.rows.size() * columns);
  return {points, about + sum / points, squares - sum * (sum / points)};
}

/// Sums of g and of g (x - mean), where g is the gradient passed back through the function.
template <class S>
KOKKOS_FORCEINLINE_FUNCTION RowSums tile_affine_sums(const RowEpilogue<S>& epilogue, const TensorView<S>& tensor,
                                                     const Tile& tile, int c) {
  using T = compute_type<S>;
  const int columns = static_cast<int>(tile.columns.size());
  const int index = epilogue.value.sample_of(tile.sample) * epilogue.channels + c;
  const double mean = epilogue.mean[index];
  const ScaleAndShift<T> affine = epilogue.affine.at(index);
  double sum = 0, product = 0;
  for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
    const S* row = &tensor.at(tile.sample, c, y, tile.columns.begin);
    const S* value = &epilogue.value.at(tile.sample, c, y, tile.columns.begin);
    each_of_lanes(columns, [&](int x) {
      const T v = value[x];
      const auto g = static_cast<double>(passed_back(T(row[x]), affine(v), epilogue.function));
      sum += g, product += g * (static_cast<double>(v) - mean);
    });
  }
  sum_over_lanes(sum, product);
  return {sum, product, 0};
}

/// The epilogue's sums over a finished tile, for channels [begin, end). Each warp takes a channel. The points are still
/// in the cache.
template <class S, class Team>
KOKKOS_FORCEINLINE_FUNCTION void sum_tile(const Team& team, const TileSums<S>& of, const Tile& tile, index_t number,
                                          int begin, int end) {
  using Kind = typename RowEpilogue<S>::Kind;
  const RowEpilogue<S>& epilogue = of.epilogue;
  if (epilogue.kind == Kind::none || epilogue.kind == Kind::mask) return;
  team.team_barrier();
  each_of_warps(team, end - begin, [&](int i) {
    const int c = begin + i;
    const RowSums sums = epilogue.kind == Kind::moments ? tile_moments(of.tensor, tile, c)
                                                        : tile_affine_sums(epilogue, of.tensor, tile, c);
    if (is_first_lane()) epilogue.partial[number * of.channels + c] = sums;
  });
}

/// Writes all points of a tile, each by at(n, c, y, x), then takes its sums. Each warp takes a row of a channel.
template <class S, class Team, class At>
KOKKOS_FORCEINLINE_FUNCTION void run_points(const Team& team, const TileOutput<S>& output, index_t number, At at) {
  const Tile tile(output.tiling, number);
  const int rows = static_cast<int>(tile.rows.size()), columns = static_cast<int>(tile.columns.size());
  each_of_warps(team, output.channels * rows, [&](int i) {
    const int c = i / rows;
    const index_t y = tile.rows.begin + i % rows;
    S* row = &output.tensor.at(tile.sample, c, y, tile.columns.begin);
    transfer_by_lanes<4, S>(
        columns,
        [&](int x) {
          const index_t at_x = tile.columns.begin + x;
          return finished(output, tile.sample, c, y, at_x, at(tile.sample, c, y, at_x));
        },
        [&](int x, S value) { row[x] = value; });
  });
  sum_tile(team, output, tile, number, 0, output.channels);
}

}  // namespace halogen::kernels::device
