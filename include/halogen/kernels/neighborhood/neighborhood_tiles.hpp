// Host: gradients of attention to a neighbourhood, a tile at a time. Each query of the tile computes p and s of its
// window once, for its own gradient and for those of the keys and values that lie in the tile. Queries beyond the tile
// compute the part of their windows that lies in it.
// Accumulation: a point's gradients are summed over rows and columns in their order, in the type of computations, so
// that tiles and meshes do not change them.
#pragma once

#include "halogen/kernels/neighborhood/neighborhood_attention_backward.hpp"

namespace halogen::kernels {

template <class ExecutionSpace, class S, int Features, int Width, class Bias = NoBias>
struct NeighborhoodTiles {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  using Gradients = NeighborhoodGradients<S, Features, Width, Bias>;

  Gradients of;
  TileOutput<S> output;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    Work work{of.parts_of(scratch), output.tile(team)};
    work.of_query = scratch.take<T>(Features * run_points);
    work.of_keys = scratch.take<T>(keys_size());
    work.transposed = scratch.take<T>(run_points * transposed_pitch());
    work.plane = windows().planes.input(work.tile.sample, 0);
    RowSums* sums = scratch.take<RowSums>(static_cast<std::size_t>(output.channels));
    for (int head = 0; head < windows().heads; ++head) run_head(head, work);
    std::fill_n(sums, output.channels, RowSums{});
    for (index_t y = work.tile.rows.begin; y < work.tile.rows.end; ++y)
      for (int o = 0; o < output.channels; ++o) output.sum_row(work.tile.sample, o, y, work.tile.columns, sums[o]);
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }

 private:
  struct Work {
    typename Gradients::Parts parts;
    Tile tile;
    PlaneAt plane{};
    T* of_query = nullptr;    ///< [Features][run_points]
    T* of_keys = nullptr;     ///< [row of the tile][key's features, then value's][column of the tile]
    T* transposed = nullptr;  ///< [point of a run][column]
  };

  const HeadWindows& windows() const { return of.scores.windows; }
  index_t step() const { return windows().around[2].dilation; }
  index_t columns() const { return output.tiling.tile_columns; }
  std::size_t keys_size() const {
    return static_cast<std::size_t>(std::min(output.tiling.tile_rows, output.tiling.rows.size()) * 2 * Features *
                                    columns());
  }
  index_t transposed_pitch() const { return ceil_div(of.most_columns(), index_t{lanes<T>}) * lanes<T>; }
  std::size_t host_bytes() const {
    return of.scratch_bytes() + Scratch::bytes_of<T>(Features * run_points) + Scratch::bytes_of<T>(keys_size()) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(run_points * transposed_pitch())) +
           Scratch::bytes_of<RowSums>(static_cast<std::size_t>(output.channels));
  }

  void run_head(int head, Work& work) const {
    const Tile& tile = work.tile;
    std::fill_n(work.of_keys, tile.rows.size() * 2 * Features * columns(), T(0));
    const index_t own_plane = work.plane.z;
    const auto& around = windows().around;
    const Interval planes = around[0].output_of({own_plane, own_plane + 1}), rows = around[1].output_of(tile.rows),
                   across = around[2].output_of(tile.columns);
    for (index_t z = planes.begin; z < planes.end; ++z)
      for (index_t y = rows.begin; y < rows.end; ++y) {
        run_row(head, z, y, {across.begin, tile.columns.begin}, false, work);
        run_row(head, z, y, tile.columns, is_in(z, y, work), work);
        run_row(head, z, y, {tile.columns.end, across.end}, false, work);
      }
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      const T* const row = keys_of_row(y, work);  // dk has its scale from q
      for (int v = 0; v < 2 * Features; ++v)
        put(of.channel(windows().heads + head, v), tile.sample, y, tile.columns.begin, tile.columns.size(),
            row + v * columns());
    }
  }

  /// The queries of a part of a row. If they are the tile's, their own gradients need all keys; else only keys in the
  /// tile are wanted.
  void run_row(int head, index_t z, index_t y, const Interval& part, bool own, Work& work) const {
    if (part.size() <= 0 || !(own || sees_tile(z, y, work))) return;
    for (index_t x = part.begin; x < part.end;) {
      PointRun run = windows().template run_from<T>(x, part.end);
      run.sample = work.plane.sample, run.z = z, run.y = y;
      x += run.count;
      if (!own) trim(run, work.tile.columns);
      if (run.count > 0 && run.columns.count > 0) run_queries(head, run, own, work);
    }
  }

  bool sees_tile(index_t z, index_t y, const Work& work) const {
    bool sees = false;
    windows().template for_each_row<false>(z, y,
                                           [&](index_t key_z, index_t key_y) { sees |= is_in(key_z, key_y, work); });
    return sees;
  }
  static bool is_in(index_t z, index_t y, const Work& work) {
    return z == work.plane.z && y >= work.tile.rows.begin && y < work.tile.rows.end;
  }
  /// Leaves the columns that lie in the tile for some point of the run, and the points that see one of these. Other
  /// columns may not be on this rank.
  void trim(PointRun& run, const Interval& tile) const {
    const index_t beyond = run.shared ? 0 : run.count - 1;  // how far the last point's columns lie beyond the first's
    SpacedPoints& seen = run.columns;
    const index_t skipped = std::max<index_t>(0, ceil_div(tile.begin - beyond - seen.first, step()));
    seen.first += skipped * step();
    seen.count = std::min(seen.count - skipped, ceil_div(tile.end - seen.first, step()));
    if (run.shared || seen.count <= 0) return;
    const index_t last = seen.first + (seen.count - 1) * step();
    const index_t begin = std::max<index_t>(0, tile.begin - last), end = std::min(run.count, tile.end - seen.first);
    run.x += begin, seen.first += begin;
    run.count = run.lanes = std::max<index_t>(0, end - begin);
  }

  void run_queries(int head, const PointRun& run, bool own, Work& work) const {
    typename Gradients::Parts& parts = work.parts;
    of.load_queries(head, run, parts);
    if (own) std::fill_n(work.of_query, Features * run_points, T(0));
    windows().template for_each_row<false>(run.z, run.y, [&](index_t z, index_t y) {
      const bool wanted = is_in(z, y, work);
      if (!own && !wanted) return;
      of.row_of_keys(head, run, z, y, parts);
      if (own) add_rows<Width>(run, step(), parts.slopes.row(0), parts.keys, work.of_query, parts.slopes.pitch);
      if (!wanted) return;
      T* const row = keys_of_row(y, work);
      add_to_keys(run, parts.slopes, parts.query, row, work);
      add_to_keys(run, parts.weights, parts.gradient, row + Features * columns(), work);
    });
    if (!own) return;
    for (int f = 0; f < Features; ++f) {
      T* const row = work.of_query + f * run_points;
      for (index_t i = 0; i < run.count; ++i) row[i] = parts.counts[i] ? of.scores.scale * row[i] : T(0);
      put(of.channel(head, f), work.tile.sample, run.y, run.x, run.count, row);
    }
  }

  T* keys_of_row(index_t y, const Work& work) const {
    return work.of_keys + (y - work.tile.rows.begin) * 2 * Features * columns();
  }

  /// to[f][key] += weights[column][query] * own[f][query] for all keys of a row that lie in the tile, by queries in
  /// their order.
  void add_to_keys(const PointRun& run, const typename Gradients::PaddedRows& weights,
                   const typename Gradients::PaddedRows& own, T* to, const Work& work) const {
    const index_t taps = run.columns.count, first = run.columns.first - work.tile.columns.begin;
    const index_t last = (taps - 1) * step() + (run.shared ? 1 : run.count);
    const Interval keys = {std::max<index_t>(0, -first), std::min(last, work.tile.columns.size() - first)};
    if (keys.begin >= keys.end) return;
    if (run.shared) return add_shared(run, keys, weights, own, to + first + keys.begin, work);
    // A key at j is column t of the query j - t * step. In the order of queries, the last column comes first.
    FeatureRows<T, Features> seen;
    const index_t back = (taps - 1) * step(), pitch = step() - weights.pitch;
    for (int f = 0; f < Features; ++f) seen.row[f] = own.row(f) - back + keys.begin;
    const T* const of_last = weights.row(taps - 1) - back + keys.begin;
    detail::each_taps<Width>(taps, [&]<int Taps>(index_t t) {
      detail::add_features<Taps, false>({of_last + t * pitch, pitch}, seen, t * step(), step(), keys.size(),
                                        to + first + keys.begin, columns());
    });
  }
  /// If the queries share the columns, each query adds to all of them.
  void add_shared(const PointRun& run, const Interval& keys, const typename Gradients::PaddedRows& weights,
                  const typename Gradients::PaddedRows& own, T* to, const Work& work) const {
    const index_t pitch = transposed_pitch();
    for (index_t t = keys.begin; t < keys.end; ++t)
      for (index_t i = 0; i < run.count; ++i) work.transposed[i * pitch + t - keys.begin] = weights.row(t)[i];
    FeatureRows<T, Features> seen;
    for (int f = 0; f < Features; ++f) seen.row[f] = own.row(f);
    const auto add = [&]<int Taps>(index_t i) {
      detail::add_features<Taps, true>({work.transposed + i * pitch, pitch}, seen, i, 1, keys.size(), to, columns());
    };
    if (run.count < Width)  // at an end so many points share a window
      detail::each_taps<Width / 2 + 1>(run.count, add);
    else
      detail::each_taps<Width>(run.count, add);
  }

  /// Writes a row of one of the layer's channels, if the output has it.
  void put(int channel, int sample, index_t y, index_t x, index_t count, const T* row) const {
    if (channel >= 0 && channel < output.channels) output.put_row(sample, channel, y, x, count, row);
  }
};

}  // namespace halogen::kernels
