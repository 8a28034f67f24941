// Device part of every convolution: forward and input gradient, dense, grouped and transposed. A team computes a chunk
// of one group's outputs for one tile. It applies the prologue as it writes the input region to scratch, and bias, base
// and mask as it writes results from registers. At the end it sums the tile. Accumulation: slabs of input channels in
// their order, within a slab over taps and channels (by_mma: taps outside), then the bias. The order is the same for
// every output on any mesh and tile. The output is = or +=, as `accumulate` says.
#pragma once

#include "halogen/kernels/convolution/device_convolution_shape.hpp"
#include "halogen/kernels/tiles/device_tile_output.hpp"

namespace halogen::kernels::device {

template <class S, class Reader>
struct WindowedConvolution {
  using T = compute_type<S>;
  using Word = WordsOf<S>;  ///< by_mma: of operands in scratch
  static_assert(sizeof(Word) == sizeof(T), "ConvolutionShape counts words as values");

  const Reader& input;
  const TileOutput<S>& output;  ///< channels: those that are written, of the layer's from `first` on
  const T* weights = nullptr;   ///< packed [group][block of outputs][input][tap][output of the block]
  const T* bias = nullptr;      ///< for the layer's outputs
  ChannelGroups groups;
  int block = 1;  ///< outputs in a packed block
  int first = 0;
  TapWindow window;
  bool split = true;  ///< by_mma, float: three products (mma.hpp)

  KOKKOS_FORCEINLINE_FUNCTION ConvolutionShape shape() const { return {window, groups, sizeof(T)}; }
  KOKKOS_FORCEINLINE_FUNCTION int first_group() const { return first / groups.outputs; }
  KOKKOS_FORCEINLINE_FUNCTION int touched_groups() const {
    return (first + output.channels - 1) / groups.outputs + 1 - first_group();
  }

  /// How many teams a tile has: one for each chunk of outputs.
  KOKKOS_FORCEINLINE_FUNCTION int teams_of_tile() const { return touched_groups() * shape().chunks(groups); }

  /// The team's part, in the way of the shape. Outputs: how many a lane computes.
  template <Multiply How, int Outputs, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team) const {
    const ConvolutionShape cut = shape();
    const int teams = teams_of_tile(), team_of_tile = team.league_rank() % teams;
    const index_t number = output.tiling.number(team.league_rank() / teams);
    const int chunks = cut.chunks(groups);
    Work<Team> work{team, cut, Tile(output.tiling, number), first_group() + team_of_tile / chunks,
                    team_of_tile % chunks * cut.outputs};
    if constexpr (How == Multiply::by_mma)
      by_mma(work);
    else if constexpr (How == Multiply::by_points)
      by_points<Outputs>(work);
    else
      unstaged(work);
    const int begin = written(work, 0) < 0 ? 0 : written(work, 0), end = written(work, cut.outputs);
    sum_tile(team, output, work.tile, number, begin, end < output.channels ? end : output.channels);
  }

 private:
  using Cut = ConvolutionShape;

  template <class Team>
  struct Work {
    const Team& team;
    const ConvolutionShape& cut;
    Tile tile;
    int group, chunk;  ///< chunk: its first output in the group
  };

  /// The number, among the written channels, of output o of the chunk. An output beyond the group's end gives that of
  /// the end.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION int written(const Work<Team>& work, int o) const {
    const int in_group = work.chunk + o < groups.outputs ? work.chunk + o : groups.outputs;
    return work.group * groups.outputs + in_group - first;
  }

  /// The weight for an output and an input of a group. A block has 1, 2 or 4 outputs.
  KOKKOS_FORCEINLINE_FUNCTION T weight(int group, int o, int c, int tap) const {
    const int shift = block >> 1, blocks = (groups.outputs + block - 1) >> shift;
    const int within = (((o >> shift) * groups.inputs + c) * window.taps() + tap) * block + (o & (block - 1));
    return weights[index_t{group} * blocks * groups.inputs * window.taps() * block + within];
  }

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void put(const Work<Team>& work, int o, index_t y, index_t x, T value) const {
    if (work.chunk + o >= groups.outputs) return;
    const int to = written(work, o);
    if (to < 0 || to >= output.channels) return;
    if (bias != nullptr) value += bias[first + to];
    output.tensor.at(work.tile.sample, to, y, x) = finished(output, work.tile.sample, to, y, x, value);
  }

  /// The scratch of the staged algorithms, and the taps of the current phase.
  template <class E>
  struct Stage {
    Region region;
    Interval rows, columns;
    Tap* taps;
    int* count;
    E* input;
    E* weights;
  };
  template <class E, class Team>
  KOKKOS_FORCEINLINE_FUNCTION Stage<E> begin(const Work<Team>& work) const {
    TeamScratch scratch(work.team, work.cut.bytes(window));
    Stage<E> stage{work.cut.region(window),
                   window.inputs_of(0, work.tile.rows),
                   window.inputs_of(1, work.tile.columns),
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr};
    stage.taps = scratch.template take<Tap>(static_cast<std::size_t>(window.taps()));
    stage.count = scratch.template take<int>(1);
    stage.input = scratch.template take<E>(static_cast<std::size_t>(work.cut.slab) * stage.region.channel);
    stage.weights = scratch.template take<E>(0);
    return stage;
  }
  template <class E, class Team>
  KOKKOS_FORCEINLINE_FUNCTION Steps begin_phase(const Work<Team>& work, const Stage<E>& stage, int phase) const {
    const Steps steps(window, work.tile, phase);
    work.team.team_barrier();
    if (work.team.team_rank() == 0 && is_first_lane())
      *stage.count = list_taps(window, steps, stage.region, stage.rows, stage.columns, stage.taps);
    work.team.team_barrier();
    return steps;
  }
  /// Stages the input from channel c on. A word has neighbouring channels.
  template <class E, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void stage_input(const Work<Team>& work, const Stage<E>& stage, int c) const {
    const int left = groups.inputs - c;
    device::stage(work.team, input, stage.region, work.tile.sample, work.group * groups.inputs + c, left, work.cut.slab,
                  stage.rows, stage.columns, stage.input, {WordOf<E>::values, 1, 1, 0});
  }

  // -- on the tensor cores: outputs x points -----------------------------------------------------------------------
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void by_mma(const Work<Team>& work) const {
    const Stage<Word> stage = begin<Word>(work);
    for (int phase = 0; phase < window.phases(0) * window.phases(1); ++phase) {
      const Steps steps = begin_phase(work, stage, phase);
      const int blocks = work.cut.outputs / Cut::warp_rows;
      const int down = (steps.count[0] + Cut::warp_points_down - 1) / Cut::warp_points_down;
      const int across = (steps.count[1] + Cut::warp_points_across - 1) / Cut::warp_points_across;
      const int items = blocks * down * across, warps = work.team.team_size();
      for (int pass = 0; pass < items; pass += warps) {  // on the device there is one pass
        const int item = pass + work.team.team_rank(), place = item / blocks;
        const Block at{item < items, item % blocks * Cut::warp_rows, place / across * Cut::warp_points_down,
                       place % across * Cut::warp_points_across};
        multiply_block(work, stage, steps, at);
      }
    }
  }

  /// What one warp computes: outputs and steps that begin here.
  struct Block {
    bool stands;
    int output, y, x;
  };
  static constexpr int row_blocks = ConvolutionShape::warp_rows / mma_rows;
  static constexpr int across_blocks = ConvolutionShape::warp_points_across / mma_columns;
  static constexpr int point_blocks = ConvolutionShape::warp_points_down * across_blocks;

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void multiply_block(const Work<Team>& work, const Stage<Word>& stage, const Steps& steps,
                                                  const Block& at) const {
    Sum<T> sum[row_blocks][point_blocks];
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < row_blocks; ++i) HALOGEN_DEVICE_UNROLL
    for (int j = 0; j < point_blocks; ++j) sum[i][j].clear();
    const int count = *stage.count;
    const int down = advance(window, 0) * stage.region.columns, right = advance(window, 1);
    for (int c = 0; c < groups.inputs; c += mma_inner * WordOf<Word>::values) {
      work.team.team_barrier();
      stage_input(work, stage, c);
      for (int first_tap = 0; first_tap < count; first_tap += work.cut.taps) {
        const int taps = count - first_tap < work.cut.taps ? count - first_tap : work.cut.taps;
        if (first_tap > 0) work.team.team_barrier();
        stage_weights(work, stage, c, first_tap, taps);
        work.team.team_barrier();
        if (!at.stands) continue;
        const Word* from = stage.input + at.y * down + at.x * right;
        for (int t = 0; t < taps; ++t)
          multiply_tap(from + stage.taps[first_tap + t].offset, stage.region.channel, down, right,
                       stage.weights + t * mma_inner * work.cut.weight_pitch() + at.output, work.cut.weight_pitch(),
                       sum);
      }
    }
    work.team.team_barrier();
    if (!at.stands) return;
    T* rows = reinterpret_cast<T*>(stage.input) + work.team.team_rank() * Cut::result_size;
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < row_blocks; ++i) HALOGEN_DEVICE_UNROLL
    for (int r = 0; r < Cut::warp_points_down; ++r) {
      HALOGEN_DEVICE_UNROLL
      for (int j = 0; j < across_blocks; ++j)
        sum[i][r * across_blocks + j].each(
            [&](int row, int column, T value) { rows[row * Cut::result_pitch + j * mma_columns + column] = value; });
      meet_lanes();
      put_rows(work, steps, {true, at.output + i * mma_rows, at.y + r, at.x}, rows);
      meet_lanes();
    }
  }

  /// Writes 16 outputs of one row of a warp's points from scratch. Neighbouring lanes write neighbouring points.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void put_rows(const Work<Team>& work, const Steps& steps, const Block& at,
                                            const T* rows) const {
    if (at.y >= steps.count[0]) return;
    const int left = steps.count[1] - at.x;
    const index_t y = steps.output(0, at.y);
    HALOGEN_DEVICE_ROLLED
    for (int row = 0; row < mma_rows; ++row)
      each_of_lanes(left < Cut::warp_points_across ? left : Cut::warp_points_across, [&](int x) {
        put(work, at.output + row, y, steps.output(1, at.x + x), rows[row * Cut::result_pitch + x]);
      });
  }

  /// Stages weights [tap][input of the slab][output], with zeros beyond channels and outputs.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void stage_weights(const Work<Team>& work, const Stage<Word>& stage, int c, int first_tap,
                                                 int taps) const {
    each_of_warps(work.team, taps * mma_inner, [&](int i) {
      const int k = c + i % mma_inner * WordOf<Word>::values, tap = stage.taps[first_tap + i / mma_inner].weight;
      Word* to = stage.weights + i * work.cut.weight_pitch();
      each_of_lanes(work.cut.outputs, [&](int o) {
        to[o] = WordOf<Word>::make([&](int which) {
          const bool stands = work.chunk + o < groups.outputs && k + which < groups.inputs;
          return stands ? weight(work.group, work.chunk + o, k + which, tap) : T(0);
        });
      });
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void multiply_tap(const Word* from, int channel, int down, int right,
                                                const Word* tap_weights, int pitch,
                                                Sum<T> (&sum)[row_blocks][point_blocks]) const {
    Left<Word> left[row_blocks];
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < row_blocks; ++i)
      left[i].load(split, [&](int row, int inner) { return tap_weights[inner * pitch + i * mma_rows + row]; });
    HALOGEN_DEVICE_UNROLL
    for (int j = 0; j < point_blocks; ++j) {
      const Word* points = from + j / across_blocks * down + j % across_blocks * mma_columns * right;
      Right<Word> points_of;
      points_of.load(split, [&](int inner, int column) { return points[inner * channel + column * right]; });
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < row_blocks; ++i) multiply_add(left[i], points_of, sum[i][j], split);
    }
  }

  // -- few channels: a column of points and a block of outputs a lane ----------------------------------------------
  template <int Outputs, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void by_points(const Work<Team>& work) const {
    constexpr int rows = ConvolutionShape::lane_rows;
    const Stage<T> stage = begin<T>(work);
    for (int phase = 0; phase < window.phases(0) * window.phases(1); ++phase) {
      const Steps steps = begin_phase(work, stage, phase);
      const int down = (steps.count[0] + rows - 1) / rows, across = (steps.count[1] + warp_lanes - 1) / warp_lanes;
      const int items = down * across;
      for (int pass = 0; pass < items; pass += work.team.team_size()) {  // on the device there is one pass
        const int item = pass + work.team.team_rank();
        point_block<Outputs>(work, stage, steps, {item < items, 0, item / across * rows, item % across * warp_lanes});
      }
    }
  }

  template <int Outputs, class Team>
  KOKKOS_FORCEINLINE_FUNCTION void point_block(const Work<Team>& work, const Stage<T>& stage, const Steps& steps,
                                               const Block& at) const {
    constexpr int rows = ConvolutionShape::lane_rows;
    T sum[held_lanes][Outputs][rows] = {};
    const int down = advance(window, 0) * stage.region.columns, right = advance(window, 1), taps = *stage.count;
    for (int c = 0; c < groups.inputs; c += work.cut.slab) {
      const int channels = groups.inputs - c < work.cut.slab ? groups.inputs - c : work.cut.slab;
      work.team.team_barrier();
      stage_input(work, stage, c);
      each_of_warps(work.team, channels, [&](int k) {
        each_of_lanes(taps * Outputs, [&](int i) {
          const int o = work.chunk + i % Outputs, tap = stage.taps[i / Outputs].weight;
          stage.weights[k * taps * Outputs + i] = o < groups.outputs ? weight(work.group, o, c + k, tap) : T(0);
        });
      });
      work.team.team_barrier();
      if (!at.stands) continue;
      each_lane([&](int lane, int slot) {
        const T* w = stage.weights;
        for (int k = 0; k < channels; ++k) {
          const T* from = stage.input + k * stage.region.channel + at.y * down + (at.x + lane) * right;
          for (int t = 0; t < taps; ++t, w += Outputs) {
            const T* point = from + stage.taps[t].offset;
            HALOGEN_DEVICE_UNROLL
            for (int r = 0; r < rows; ++r) {
              const T x = point[r * down];
              HALOGEN_DEVICE_UNROLL
              for (int o = 0; o < Outputs; ++o) sum[slot][o][r] += x * w[o];
            }
          }
        }
      });
    }
    if (!at.stands) return;
    each_lane([&](int lane, int slot) {
      if (at.x + lane >= steps.count[1]) return;
      HALOGEN_DEVICE_UNROLL
      for (int r = 0; r < rows; ++r)
        if (at.y + r < steps.count[0]) HALOGEN_DEVICE_UNROLL
      for (int o = 0; o < Outputs; ++o)
        put(work, o, steps.output(0, at.y + r), steps.output(1, at.x + lane), sum[slot][o][r]);
    });
  }

  // -- windows too wide for scratch --------------------------------------------------------------------------------
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void unstaged(const Work<Team>& work) const {
    const int columns = static_cast<int>(work.tile.columns.size());
    each_of_warps(work.team, work.cut.outputs * static_cast<int>(work.tile.rows.size()), [&](int i) {
      const int o = i % work.cut.outputs;
      if (work.chunk + o >= groups.outputs) return;
      const index_t y = work.tile.rows.begin + i / work.cut.outputs;
      each_of_lanes(columns, [&](int x) {
        put(work, o, y, work.tile.columns.begin + x, output_at(work, o, y, work.tile.columns.begin + x));
      });
    });
  }

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION T output_at(const Work<Team>& work, int o, index_t y, index_t x) const {
    T sum = 0;
    for (int c = 0; c < groups.inputs; ++c)
      for (int k = 0; k < window.taps(); ++k) {
        index_t input_y, input_x;
        if (window.reads(0, y, k / window.shape.kernel[1], input_y) &&
            window.reads(1, x, k % window.shape.kernel[1], input_x))
          sum += weight(work.group, work.chunk + o, c, k) *
                 row_of(input, work.tile.sample, work.group * groups.inputs + c, input_y, input_x).at(0);
      }
    return sum;
  }
};

/// One way of a kernel whose device_part() is such a convolution. A kernel of its own needs only its own registers.
template <class Kernel, Multiply How, int Outputs = 1>
struct ConvolutionPart {
  Kernel kernel;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(const typename Kernel::Team& team) const {
    kernel.device_part().template run<How, Outputs>(team);
  }
};

template <class ExecutionSpace, class Kernel>
void launch_convolution(const ExecutionSpace& space, const char* label, const Kernel& kernel) {
  using Cut = ConvolutionShape;
  const auto part = kernel.device_part();
  const Cut cut = part.shape();
  const auto launch = [&](const auto& functor) {
    launch_tiles(space, label, kernel.output.tiling.tiles_run() * part.teams_of_tile(), functor, 0,
                 cut.bytes(part.window));
  };
  if (cut.multiply == Multiply::by_mma)
    launch(ConvolutionPart<Kernel, Multiply::by_mma>{kernel});
  else if (cut.multiply == Multiply::unstaged)
    launch(ConvolutionPart<Kernel, Multiply::unstaged>{kernel});
  else if (cut.outputs == 1)
    launch(ConvolutionPart<Kernel, Multiply::by_points, 1>{kernel});
  else
    launch(ConvolutionPart<Kernel, Multiply::by_points, Cut::lane_outputs>{kernel});
}

}  // namespace halogen::kernels::device
