// Where a launch runs. From this a launch type computes its tiles and its memory: pure arithmetic, for dry runs as
// well.
#pragma once

#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/tiles/tiles.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// The points that a rank computes in a launch.
struct LaunchPlace {
  const Plan& plan;
  const Launch& launch;
  Interval rows, columns;
  int planes;  ///< of all samples
  int samples;
  ValueBytes bytes;

  const Node& node() const { return plan.node_of(launch); }
};

/// Bytes that a launch needs while it runs, in addition to stored tensors. All launches share this memory.
struct WorkspaceUse {
  std::size_t prepared = 0;  ///< parameters in the order in which its kernel reads them
  std::size_t partials = 0;  ///< sums of blocks of tiles
  int blocks = 0;            ///< how many blocks of tiles have sums that are added at the end
  int rank_sums = 0;         ///< numbers that are summed over ranks (LaunchAt::sum_over_ranks)
};

/// Tile sizes that do not depend on the launch.
struct TileSizes {
  static constexpr bool on_device = kernels::device::runs_on<execution_space>;
  static constexpr index_t rows = 8;
  static constexpr int gradient_blocks = 8;  ///< how many sums of blocks: independent of the threads, so sums are too
  static constexpr int channel_sum_blocks = 264, most_sample_blocks = 64;
  static constexpr index_t device_tile = 32;                       ///< rows and columns where points are summed
  static constexpr index_t device_rows = 8, device_columns = 128;  ///< where rows are computed from rows

  /// The tiles of a launch that computes rows from rows.
  static kernels::Tiling of_rows(const LaunchPlace& at) {
    if constexpr (on_device) return {at.rows, at.columns, at.planes, device_rows, device_columns};
    return {at.rows, at.columns, at.planes, rows, std::max(at.columns.size(), index_t{1})};
  }
  /// The tiles of a sum over all points of a field.
  static kernels::Tiling of_sums(Interval rows_summed, Interval columns, int planes) {
    if constexpr (on_device) return {rows_summed, columns, planes, device_tile, device_tile};
    return {rows_summed, columns, planes, rows, std::max(columns.size(), index_t{1})};
  }
  static kernels::Tiling of_sums(const LaunchPlace& at) { return of_sums(at.rows, at.columns, at.planes); }
  /// How many blocks of such tiles have sums. There are never more blocks than tiles.
  static int blocks(const kernels::Tiling& tiles) {
    return static_cast<int>(std::min<index_t>(on_device ? channel_sum_blocks : gradient_blocks, tiles.count()));
  }
  /// The same for each sample, if samples have sums of their own.
  static int sample_blocks(const kernels::Tiling& tiles, int samples) {
    return static_cast<int>(std::min<index_t>(most_sample_blocks, tiles.count() / std::max(samples, 1)));
  }
};

}  // namespace halogen
