// Device part of every weight gradient: dw[o, c, k] = sum over p of points[o, p] * window[c, p * stride - padding + k *
// dilation]. A team takes a chunk of one group's weights for one block of tiles. Tensor cores compute o x c, with the
// points as the inner dimension. For small groups each warp computes one pair (o, c) instead; there a point whose
// gradient is 0 adds nothing, while tensor cores multiply it. Accumulation: in the value type within a tile, in double
// across tiles and blocks, in a fixed order.
#pragma once

#include "halogen/kernels/convolution/device_mma.hpp"
#include "halogen/kernels/convolution/device_staging.hpp"

namespace halogen::kernels::device {

/// How the weights of one group are divided among teams, and how the points of a tile go to scratch. This depends on
/// the window, its channels and the value type alone.
struct CorrelationShape {
  static constexpr int tile_rows = 32, tile_columns = 32;  ///< points whose products are summed in the value type
  static constexpr int warp_outputs = mma_rows, warp_inputs = mma_columns;
  static constexpr int lane_taps = 9;  ///< taps that a warp sums at once

  bool by_mma = false;
  int outputs = 1, inputs = team_warps;  ///< of a team; by pairs: `inputs` is the number of pairs
  int rows = 0;                          ///< by_mma: rows of words in scratch at once
  int rows_of_word = 1;                  ///< of points: a word has two-byte values of two rows
  std::size_t value_bytes = 0;           ///< of a word, and of a sum

  KOKKOS_FORCEINLINE_FUNCTION CorrelationShape(const PlaneWindow& window, const ChannelGroups& groups,
                                               const ValueBytes& bytes_of_value)
      : rows_of_word(bytes_of_value.stored < bytes_of_value.computed ? 2 : 1), value_bytes(bytes_of_value.computed) {
    if (groups.outputs * groups.inputs < 16) return;
    by_mma = true;
    outputs = groups.outputs > warp_outputs ? 2 * warp_outputs : warp_outputs;
    for (int blocks = team_warps * warp_outputs / outputs; blocks > 0; blocks /= 2) {
      inputs = blocks * warp_inputs;
      while (blocks > 1 && inputs / 2 >= groups.inputs) inputs /= 2, blocks /= 2;
      for (rows = 4; rows > 0; rows /= 2)
        if (region(window).fits() && bytes(window) <= scratch_limit) return;
    }
    by_mma = false;
    outputs = 1, inputs = team_warps;
  }

  /// How many teams a block of tiles has: one for each chunk of the weights of all groups.
  KOKKOS_FORCEINLINE_FUNCTION int chunks(const ChannelGroups& groups) const {
    return by_mma ? static_cast<int>(groups.count * ceil_div(groups.outputs, outputs) * ceil_div(groups.inputs, inputs))
                  : static_cast<int>(ceil_div(index_t{groups.count} * groups.outputs * groups.inputs, inputs));
  }
  KOKKOS_FORCEINLINE_FUNCTION Region region(const PlaneWindow& window) const {
    return {TapWindow{window, false}, (rows - 1) * rows_of_word + 1, tile_columns, 4};
  }
  KOKKOS_FORCEINLINE_FUNCTION int points_pitch() const { return banked(rows * tile_columns, 4); }
  KOKKOS_FORCEINLINE_FUNCTION std::size_t bytes(const PlaneWindow& window) const {
    if (!by_mma) return 0;
    const std::size_t points = static_cast<std::size_t>(outputs) * static_cast<std::size_t>(points_pitch());
    const std::size_t region_points =
        static_cast<std::size_t>(inputs) * static_cast<std::size_t>(region(window).channel);
    return (points * value_bytes + 15) / 16 * 16 + (region_points * value_bytes + 15) / 16 * 16;
  }
};

/// How many blocks of tiles there are for so many weights: enough teams to fill a device, and no more partial results
/// than that needs.
inline int correlation_blocks(const PlaneWindow& window, const ChannelGroups& groups, const ValueBytes& value_bytes,
                              index_t tiles) {
  constexpr index_t teams = 4 * 132;
  const index_t blocks = ceil_div(teams, CorrelationShape(window, groups, value_bytes).chunks(groups));
  return static_cast<int>(std::min(blocks, tiles));
}

template <class S, class Points, class Windowed>
struct WindowedCorrelation {
  using T = compute_type<S>;
  using Word = WordsOf<S>;

  const Points& points;
  const Windowed& window;
  ChannelGroups groups;  ///< outputs: channels of points, inputs: of window
  PlaneWindow shape;
  const Tiling& tiling;  ///< of the points
  int blocks = 1;
  double* partial = nullptr;  ///< [block][weights, then sums of the points of each channel]
  bool split = true;

  KOKKOS_FORCEINLINE_FUNCTION int taps() const { return shape.kernel[0] * shape.kernel[1]; }
  KOKKOS_FORCEINLINE_FUNCTION int channels() const { return groups.count * groups.outputs; }
  KOKKOS_FORCEINLINE_FUNCTION index_t weights() const { return index_t{channels()} * groups.inputs * taps(); }
  KOKKOS_FORCEINLINE_FUNCTION index_t partial_size() const { return weights() + channels(); }
  KOKKOS_FORCEINLINE_FUNCTION CorrelationShape cut() const { return {shape, groups, ValueBytes::of<S>()}; }

  /// The team's part of the blocks from first_block on, in the way of the shape.
  template <bool ByMma, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team, int first_block) const {
    const CorrelationShape cut_of = cut();
    const int chunks = cut_of.chunks(groups), chunk = team.league_rank() % chunks;
    const int block = first_block + team.league_rank() / chunks;
    double* result = partial + block * partial_size();
    if constexpr (ByMma)
      by_mma(team, cut_of, tiling.of_block(block, blocks), chunk, result);
    else
      by_pairs(team, cut_of, tiling.of_block(block, blocks), chunk, result);
  }

 private:
  static constexpr int held_taps = CorrelationShape::lane_taps;
  static constexpr int row_blocks = CorrelationShape::warp_outputs / mma_rows;

  /// The weights of a chunk and its scratch.
  struct Chunk {
    int group, output, input;  ///< the first of the chunk, counted in the group
    Region region;
    int pitch;
    Word* lines;
    Word* input_of;
  };

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void by_mma(const Team& team, const CorrelationShape& cut_of, const Interval& tiles,
                                          int chunk, double* result) const {
    const int down = static_cast<int>(ceil_div(groups.outputs, cut_of.outputs));
    const int across = static_cast<int>(ceil_div(groups.inputs, cut_of.inputs));
    TeamScratch scratch(team, cut_of.bytes(shape));
    Chunk at{chunk / (down * across),
             chunk / across % down * cut_of.outputs,
             chunk % across * cut_of.inputs,
             cut_of.region(shape),
             cut_of.points_pitch(),
             nullptr,
             nullptr};
    at.lines = scratch.template take<Word>(static_cast<std::size_t>(cut_of.outputs) * at.pitch);
    at.input_of = scratch.template take<Word>(0);
    const int output_blocks = cut_of.outputs / CorrelationShape::warp_outputs;
    const int items = output_blocks * (cut_of.inputs / CorrelationShape::warp_inputs);
    for (int pass = 0; pass < items; pass += team.team_size())  // on the device there is one pass
      for (int tap = 0; tap < taps(); tap += held_taps) {
        const int item = pass + team.team_rank();
        const int o = item % output_blocks * CorrelationShape::warp_outputs;
        const int c = item / output_blocks * CorrelationShape::warp_inputs;
        for (index_t t = tiles.begin; t < tiles.end; ++t)
          multiply_tile(team, cut_of, at, Tile(tiling, t), o, c, tap, item < items, t == tiles.begin, result,
                        pass == 0 && tap == 0 && at.input == 0);
      }
  }

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void multiply_tile(const Team& team, const CorrelationShape& cut_of, const Chunk& at,
                                                 const Tile& tile, int o, int c, int tap, bool stands, bool starts,
                                                 double* result, bool sums_points) const {
    Sum<T> sum[row_blocks][held_taps];
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < row_blocks; ++i) HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < held_taps; ++k) sum[i][k].clear();
    const int rows = cut_of.rows * cut_of.rows_of_word;
    for (index_t y = tile.rows.begin; y < tile.rows.end; y += rows) {
      const index_t end = y + rows < tile.rows.end ? y + rows : tile.rows.end;
      team.team_barrier();
      stage_rows(team, cut_of, at, tile, {y, end});
      team.team_barrier();
      if (sums_points) add_points(team, cut_of, at, starts && y == tile.rows.begin, result + weights());
      if (stands) multiply_rows(cut_of, at, o, c, tap, sum);
    }
    if (!stands) return;
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < row_blocks; ++i) HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < held_taps; ++k) {
      if (tap + k >= taps()) continue;
      sum[i][k].each([&](int row, int column, T value) {
        const int output = at.output + o + i * mma_rows + row, input = at.input + c + column;
        if (output >= groups.outputs || input >= groups.inputs) return;
        double& to = result[((at.group * groups.outputs + output) * index_t{groups.inputs} + input) * taps() + tap + k];
        to = (starts ? 0.0 : to) + static_cast<double>(value);
      });
    }
  }

  /// Stages some rows of a tile: points, and the region of the input that they multiply, with zeros beyond. If words
  /// have two values, word row r of the points has rows 2 r and 2 r + 1. Each row of the region is paired with the row
  /// that a tap reads for the next output row. So the words of all taps have the same layout.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void stage_rows(const Team& team, const CorrelationShape& cut_of, const Chunk& at,
                                              const Tile& tile, const Interval& rows) const {
    const Region lines = Region::lines(cut_of.rows, CorrelationShape::tile_columns, at.pitch);
    stage(team, points, lines, tile.sample, at.group * groups.outputs + at.output, groups.outputs - at.output,
          cut_of.outputs, rows, tile.columns, at.lines, {1, cut_of.rows_of_word, 0, 1});
    const TapWindow reads{shape, false};
    stage(team, window, at.region, tile.sample, at.group * groups.inputs + at.input, groups.inputs - at.input,
          cut_of.inputs, reads.inputs_of(0, rows), reads.inputs_of(1, tile.columns), at.input_of,
          {1, 1, 0, shape.stride[0]});
  }

  /// Adds the staged points of each channel. Each warp takes a channel.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void add_points(const Team& team, const CorrelationShape& cut_of, const Chunk& at,
                                              bool starts, double* result) const {
    each_of_warps(team, cut_of.outputs, [&](int o) {
      if (at.output + o >= groups.outputs) return;
      double sum = 0, unused = 0;
      each_of_lanes(cut_of.rows * CorrelationShape::tile_columns,
                    [&](int i) { sum += WordOf<Word>::sum(at.lines[o * at.pitch + i]); });
      sum_over_lanes(sum, unused);
      double& to = result[at.group * groups.outputs + at.output + o];
      if (is_first_lane()) to = (starts ? 0.0 : to) + sum;
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void multiply_rows(const CorrelationShape& cut_of, const Chunk& at, int o, int c, int tap,
                                                 Sum<T> (&sum)[row_blocks][held_taps]) const {
    const int stride = shape.stride[1];
    int offset[held_taps];
    HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < held_taps; ++k)
      offset[k] = (tap + k) / shape.kernel[1] * shape.dilation[0] * at.region.columns +
                  (tap + k) % shape.kernel[1] * shape.dilation[1];
    for (int r = 0; r < cut_of.rows; ++r)
      for (int x = 0; x < CorrelationShape::tile_columns; x += mma_inner) {
        Left<Word> left[row_blocks];
        HALOGEN_DEVICE_UNROLL
        for (int i = 0; i < row_blocks; ++i)
          left[i].load(split, [&](int row, int inner) {
            return at.lines[(o + i * mma_rows + row) * at.pitch + r * CorrelationShape::tile_columns + x + inner];
          });
        const Word* from = at.input_of + c * at.region.channel +
                           r * cut_of.rows_of_word * shape.stride[0] * at.region.columns + x * stride;
        HALOGEN_DEVICE_UNROLL
        for (int k = 0; k < held_taps; ++k) {
          if (tap + k >= taps()) continue;
          Right<Word> right;
          right.load(split, [&](int inner, int column) {
            return from[column * at.region.channel + offset[k] + inner * stride];
          });
          HALOGEN_DEVICE_UNROLL
          for (int i = 0; i < row_blocks; ++i) multiply_add(left[i], right, sum[i][k], split);
        }
      }
  }

  // -- small groups: one output and input a warp -------------------------------------------------------------------
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void by_pairs(const Team& team, const CorrelationShape& cut_of, const Interval& tiles,
                                            int chunk, double* result) const {
    each_of_warps(team, cut_of.inputs, [&](int i) {
      const int pair = chunk * cut_of.inputs + i;
      if (pair >= channels() * groups.inputs) return;
      const int o = pair / groups.inputs, c = o / groups.outputs * groups.inputs + pair % groups.inputs;
      for (int tap = 0; tap < taps(); tap += held_taps) {
        double* to = result + index_t{pair} * taps() + tap;
        double* points_to = tap == 0 && pair % groups.inputs == 0 ? result + weights() + o : nullptr;
        for (index_t t = tiles.begin; t < tiles.end; ++t)
          add_pair(Tile(tiling, t), o, c, tap, t == tiles.begin, to, points_to);
      }
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void add_pair(const Tile& tile, int o, int c, int tap, bool starts, double* to,
                                            double* points_to) const {
    const int columns = static_cast<int>(tile.columns.size()),
              count = taps() - tap < held_taps ? taps() - tap : held_taps;
    T sum[held_taps] = {};
    double all = 0;
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      const auto line = row_of(points, tile.sample, o, y, tile.columns.begin);
      if (points_to != nullptr) each_of_lanes(columns, [&](int x) { all += static_cast<double>(line.at(x)); });
      HALOGEN_DEVICE_UNROLL
      for (int k = 0; k < held_taps; ++k) {
        if (k >= count) continue;
        const index_t input_y = shape.input(0, y, (tap + k) / shape.kernel[1]);
        const auto from =
            row_of(window, tile.sample, c, input_y, shape.input(1, tile.columns.begin, (tap + k) % shape.kernel[1]));
        each_of_lanes(columns, [&](int x) {
          const T point = line.at(x), other = from.at(x * shape.stride[1]);
          if ((reads_gradient<Points> ? point : other) != T(0)) sum[k] += point * other;
        });
      }
    }
    HALOGEN_DEVICE_UNROLL
    for (int k = 0; k < held_taps; ++k) {
      if (k >= count) continue;
      double total = static_cast<double>(sum[k]), unused = 0;
      sum_over_lanes(total, unused);
      if (is_first_lane()) to[k] = (starts ? 0.0 : to[k]) + total;
    }
    if (points_to == nullptr) return;
    double unused = 0;
    sum_over_lanes(all, unused);
    if (is_first_lane()) *points_to = (starts ? 0.0 : *points_to) + all;
  }
};

/// One way of a kernel whose device_part() is such a correlation. A kernel of its own needs only its own registers.
template <class Kernel, bool ByMma>
struct CorrelationPart {
  Kernel kernel;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(const typename Kernel::Team& team) const {
    kernel.device_part().template run<ByMma>(team, kernel.first_block);
  }
};

/// Launches the blocks [first_block, last_block).
template <class ExecutionSpace, class Kernel>
void launch_correlation(const ExecutionSpace& space, const char* label, const Kernel& kernel) {
  const auto part = kernel.device_part();
  const CorrelationShape cut = part.cut();
  const index_t teams = index_t{kernel.last_block - kernel.first_block} * cut.chunks(part.groups);
  const std::size_t bytes = cut.bytes(part.shape);
  if (cut.by_mma)
    launch_tiles(space, label, teams, CorrelationPart<Kernel, true>{kernel}, 0, bytes);
  else
    launch_tiles(space, label, teams, CorrelationPart<Kernel, false>{kernel}, 0, bytes);
}

}  // namespace halogen::kernels::device
