// Kernels whose output rows are functions of a few input rows: writing out a value, pooling, the adjoint of resampling.
// One functor runs them over tiles. Each kernel only says how to compute one row of one channel.
#pragma once

#include <algorithm>
#include <limits>

#include "halogen/kernels/tiles/device_tile_output.hpp"

namespace halogen::kernels {

/// Compute has `T at(n, c, y, x)` for one point. For rows of the host, which are faster, it can also have both `void
/// row(n, c, y, x0, count, T* out, T* scratch)` and `index_t scratch_size(columns)`.
template <class ExecutionSpace, class S, class Compute>
struct RowKernel {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Compute compute;
  TileOutput<S> output;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr bool has_rows = requires(const Compute& of) { of.scratch_size(0); };

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    device::run_points(team, output, output.number(team),
                       [&](int n, int c, index_t y, index_t x) { return compute.at(n, c, y, x); });
  }

  std::size_t columns() const { return static_cast<std::size_t>(output.tiling.tile_columns); }
  std::size_t scratch_size() const {
    if constexpr (has_rows)
      return static_cast<std::size_t>(compute.scratch_size(output.tiling.tile_columns));
    else
      return 0;
  }
  std::size_t host_bytes() const { return Scratch::bytes_of<T>(columns()) + Scratch::bytes_of<T>(scratch_size()); }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* line = scratch.take<T>(columns());
    [[maybe_unused]] T* rest = scratch.take<T>(scratch_size());
    const Tile tile = output.tile(team);
    const index_t x = tile.columns.begin, count = tile.columns.size();
    for (int c = 0; c < output.channels; ++c) {
      RowSums sums;
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
        T* row = output.row(tile.sample, c, y, x, line);
        if constexpr (has_rows)
          compute.row(tile.sample, c, y, x, count, row, rest);
        else
          for (index_t i = 0; i < count; ++i) row[i] = compute.at(tile.sample, c, y, x + i);
        output.finish_row(tile.sample, c, y, tile.columns, row, sums);
      }
      output.keep_sums(team, c, sums);
    }
    if (output.streams) stream_fence();
  }
};

/// Sums of a tensor that is already written.
template <class ExecutionSpace, class S>
struct MomentsKernel {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  TileSums<S> sums;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, sums.tiling.tiles_run(), *this, 0, 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile = sums.tile(team);
    HALOGEN_HOST_PART(run_on_host(team, tile);)
    HALOGEN_DEVICE_PART(device::sum_tile(team, sums, tile, sums.number(team), 0, sums.channels);)
  }

 private:
  void run_on_host(const Team& team, const Tile& tile) const {
    for (int c = 0; c < sums.channels; ++c) {
      RowSums of_tile;
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) sums.sum_row(tile.sample, c, y, tile.columns, of_tile);
      sums.keep_sums(team, c, of_tile);
    }
  }
};

/// out = channels [first, ...) of what the reader reads: writes out a value, or a gradient that it recomputes.
template <class S, class Reader>
struct CopyRows {
  using T = compute_type<S>;
  Reader input;
  int first = 0;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(n, first + c, y, x0, count, out);
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const { return input.at(n, first + c, y, x); }
};

/// out = the sum of two values.
template <class S>
struct SumRows {
  using T = compute_type<S>;
  ValueReader<S> first, second;

  index_t scratch_size(index_t columns) const { return columns; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    first.load_row(n, c, y, x0, count, out);
    second.load_row(n, c, y, x0, count, scratch);
    for_each_vector<T>(count, [&]<class V>(index_t i) { store<V>(out + i, load<V>(out + i) + load<V>(scratch + i)); });
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return first.at(n, c, y, x) + second.at(n, c, y, x);
  }
};

/// Adjoint of nearest resampling. Each coarse point adds the fine points that read it, in row order.
template <class S>
struct NearestBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> fine;
  Resample map[spatial_dimensions];

  index_t scratch_size(index_t columns) const { return ceil_div(columns * map[2].to, map[2].from) + 2; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    PlaneAt plane = fine.depth.input(n, c);
    const Interval planes = map[0].output_of({plane.z, plane.z + 1}), rows = map[1].output_of({y, y + 1});
    const Interval columns = map[2].output_of({x0, x0 + count});
    std::fill_n(out, count, T(0));
    for (plane.z = planes.begin; plane.z < planes.end; ++plane.z)
      for (index_t fy = rows.begin; fy < rows.end; ++fy) {
        fine.load_row(plane, fy, columns.begin, columns.size(), scratch);
        if (map[2].doubles()) {
          add_pairs(scratch, count, out);
          continue;
        }
        index_t fx = columns.begin;
        for (index_t i = 0; i < count; ++i) {
          const index_t end = map[2].output_of({x0 + i, x0 + i + 1}).end;
          for (; fx < end; ++fx) out[i] += scratch[fx - columns.begin];
        }
      }
  }

  static void add_pairs(const T* pairs, index_t count, T* out) {
    index_t i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) {
      Vector<T> first, second;
      load_pairs<T>(pairs + 2 * i, first, second);
      store(out + i, load<Vector<T>>(out + i) + first + second);
    }
    for (; i < count; ++i) out[i] = out[i] + pairs[2 * i] + pairs[2 * i + 1];
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    PlaneAt plane = fine.depth.input(n, c);
    const index_t z0 = first_fine(0, plane.z), z1 = first_fine(0, plane.z + 1), y1 = first_fine(1, y + 1);
    const index_t x0 = first_fine(2, x), x1 = first_fine(2, x + 1);
    T sum = 0;
    for (plane.z = z0; plane.z < z1; ++plane.z)
      for (index_t fy = first_fine(1, y); fy < y1; ++fy)
        for (index_t fx = x0; fx < x1; ++fx) sum += fine.at(plane, fy, fx);
    return sum;
  }

 private:
  KOKKOS_FUNCTION index_t first_fine(int d, index_t coarse) const { return ceil_div(coarse * map[d].to, map[d].from); }
};

}  // namespace halogen::kernels
