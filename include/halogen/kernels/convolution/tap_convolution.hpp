// Convolution by lists of taps, for grouped, depthwise and transposed windows, and for input gradients of strided ones.
// None of them multiplies a weight of another group, or a zero between two points. Accumulation: bias, then the group's
// input channels, then taps in row order. The order is the same for every output on any mesh, tile and vector block, so
// results are equal to the bit.
#pragma once

#include "halogen/kernels/convolution/convolution.hpp"
#include "halogen/kernels/tiles/tap_rows.hpp"

namespace halogen::kernels {

/// How many output channels of a group one micro-kernel has. For depthwise windows it is 1.
HALOGEN_FUNCTION constexpr int tap_channel_block(int outputs) { return outputs < 3 ? outputs : channel_block; }

/// Size of packed weights [group][output block][input][tap][block]. They are 0 for channels beyond the last in a block.
constexpr index_t packed_tap_size(const ChannelGroups& groups, int taps) {
  const int block = tap_channel_block(groups.outputs);
  return index_t{groups.count} * ceil_div(groups.outputs, block) * block * groups.inputs * taps;
}

/// Packs (outputs, inputs of a group, KH, KW) or, if `swapped`, weights stored as (inputs, outputs of a group, KH, KW).
/// The KD planes of a window are inputs. They are stored after the channels, and if swapped, from the last to the
/// first.
template <class T>
struct PackTapWeights {
  const T* weights;
  T* packed;
  ChannelGroups groups;
  int taps;
  bool swapped;
  int depth;  ///< KD

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int block = tap_channel_block(groups.outputs);
    const index_t blocks = ceil_div(groups.outputs, block);
    const int tap = static_cast<int>(i / block % taps), in = static_cast<int>(i / (block * taps) % groups.inputs);
    const index_t outer = i / (index_t{block} * taps * groups.inputs), group = outer / blocks;
    const index_t out = outer % blocks * block + i % block;
    T value = 0;
    if (out < groups.outputs)
      value = swapped ? weights[(((group * (groups.inputs / depth) + in / depth) * groups.outputs + out) * depth +
                                 (depth - 1 - in % depth)) *
                                    taps +
                                tap]
                      : weights[((group * groups.outputs + out) * groups.inputs + in) * taps + tap];
    packed[i] = value;
  }
};

namespace detail {

/// Outputs x (Blocks vectors) from `inputs` channels, each with `count` taps. Rows of `out` are `pitch` apart.
template <class T, int Outputs, int Blocks>
[[gnu::noinline]] void convolve_taps(const T* base, const TapList& taps, index_t channel_stride, index_t weight_stride,
                                     int inputs, const T* weights, const T* start, T* out, index_t pitch) {
  using V = Vector<T>;
  V sum[Outputs][Blocks];
  HALOGEN_UNROLL
  for (int o = 0; o < Outputs; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b) sum[o][b] = V{} + start[o];
  for (int c = 0; c < inputs; ++c) {
    for (int t = 0; t < taps.count; ++t) {
      const T* in = base + taps.offset[t];
      const T* w = weights + taps.weight[t];
      V x[Blocks];
      HALOGEN_UNROLL
      for (int b = 0; b < Blocks; ++b) x[b] = load<V>(in + b * lanes<T>);
      HALOGEN_UNROLL
      for (int o = 0; o < Outputs; ++o) HALOGEN_UNROLL
      for (int b = 0; b < Blocks; ++b) sum[o][b] += x[b] * w[o];
    }
    base += channel_stride;
    weights += weight_stride;
  }
  HALOGEN_UNROLL
  for (int o = 0; o < Outputs; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b) store<V>(out + o * pitch + b * lanes<T>, sum[o][b]);
}

}  // namespace detail

/// The channels from `first` on of a grouped window's output. Reader is a ValueReader or a GradientReader.
template <class ExecutionSpace, class S, class Reader>
struct TapConvolution {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Reader input;
  TileOutput<S> output;
  const T* weights = nullptr;  ///< packed
  const T* bias = nullptr;
  ChannelGroups groups;
  int first = 0;
  TapWindow window;
  bool split = !tf32_is_allowed();

  void launch(const ExecutionSpace& space, const char* label) const {
    if constexpr (device::runs_on<ExecutionSpace>)
      device::launch_convolution(space, label, *this);
    else
      launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  KOKKOS_FORCEINLINE_FUNCTION device::WindowedConvolution<S, Reader> device_part() const {
    return {input, output, weights, bias, groups, tap_channel_block(groups.outputs), first, window, split};
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const { run_on_host(team); }

 private:
  using Within = ReaderWithin<Reader>;
  using Ring = WindowRows<T, Within>;
  static constexpr int wide = detail::wide_block;
  static constexpr index_t block_size = channel_block * wide * lanes<T>;

  std::size_t sums_of_a_group() const { return static_cast<std::size_t>(groups.outputs); }
  index_t steps(index_t columns) const { return columns / window.phases(1) + (window.phases(1) > 1 ? 2 : 0); }
  Ring rows(const Within& within, const PlaneWindow& shape) const {
    return {within, shape, groups.inputs, steps(output.tiling.tile_columns), 1};
  }
  std::size_t host_bytes() const {
    const PlaneWindow shape = window.ring();
    return rows({input, {}, {}}, shape).bytes() + TapList::bytes(window) + Scratch::bytes_of<T>(block_size) +
           Scratch::bytes_of<RowSums>(sums_of_a_group());
  }

  /// What the loops over one tile share.
  struct Work {
    Tile tile;
    Interval steps;  ///< of columns
    T* block;
    TapList taps;
    RowSums* sums;
  };

  void run_on_host(const Team& team) const {
    const Tile tile = output.tile(team);
    Within within{input, window.inputs_of(0, tile.rows), window.inputs_of(1, tile.columns)};
    const PlaneWindow shape = window.ring();
    Ring ring = rows(within, shape);
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    const int phases = window.phases(1);
    Work work{tile,
              {floor_div(tile.columns.begin, phases), floor_div(tile.columns.end - 1, phases) + 1},
              scratch.take<T>(block_size),
              TapList(scratch, window, ring),
              scratch.take<RowSums>(sums_of_a_group())};
    for (int g = first / groups.outputs; g * groups.outputs < first + output.channels; ++g) {
      within.first_channel = g * groups.inputs;
      Scratch again = scratch;
      ring.begin(again, tile.sample, work.steps);
      std::fill_n(work.sums, groups.outputs, RowSums{});
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
        ring.advance_to(floor_div(y, window.phases(0)));
        switch (tap_channel_block(groups.outputs)) {
          case 1:
            group_row<1>(work, ring, g, y);
            break;
          case 2:
            group_row<2>(work, ring, g, y);
            break;
          default:
            group_row<channel_block>(work, ring, g, y);
        }
        for_outputs(g, 0, groups.outputs,
                    [&](int i, int o) { output.sum_row(tile.sample, o, y, tile.columns, work.sums[i]); });
      }
      for_outputs(g, 0, groups.outputs, [&](int i, int o) { output.keep_sums(team, o, work.sums[i]); });
    }
  }

  /// Calls f(i, o) for the wanted outputs among [begin, end) of group g. i counts from the group's first output, o from
  /// `first`.
  template <class F>
  void for_outputs(int g, int begin, int end, F f) const {
    for (int i = begin; i < end; ++i) {
      const int o = g * groups.outputs + i - first;
      if (i < groups.outputs && o >= 0 && o < output.channels) f(i, o);
    }
  }

  /// One row of all outputs of a group: phase by phase, and in each from left to right.
  template <int Outputs>
  void group_row(Work& work, const Ring& ring, int g, index_t y) const {
    const int phases = window.phases(1);
    const index_t step_y = floor_div(y, window.phases(0));
    const int phase_y = static_cast<int>(y - step_y * window.phases(0));
    const T* origin = ring.row(0, step_y, 0);
    const Interval& columns = work.tile.columns;
    for (int phase = 0; phase < phases; ++phase) {
      work.taps.fill(ring, origin, step_y, phase_y, phase, Outputs);
      // The steps of this phase inside the tile.
      const index_t begin = ceil_div(columns.begin - phase, phases), end = ceil_div(columns.end - phase, phases);
      for (index_t s = begin; s < end;) {
        const index_t left = end - s;
        if (left > (wide - 1) * lanes<T>)
          s += steps_at<Outputs, wide>(work, ring, origin, g, y, s, end, phase);
        else if (left > lanes<T>)
          s += steps_at<Outputs, 2>(work, ring, origin, g, y, s, end, phase);
        else
          s += steps_at<Outputs, 1>(work, ring, origin, g, y, s, end, phase);
      }
    }
  }

  template <int Outputs, int Blocks>
  index_t steps_at(const Work& work, const Ring& ring, const T* origin, int g, index_t y, index_t s, index_t end,
                   int phase) const {
    constexpr index_t size = Blocks * lanes<T>;
    const int n = work.tile.sample, phases = window.phases(1);
    const index_t count = std::min(size, end - s), weight_stride = index_t{window.taps()} * Outputs;
    const index_t blocks = ceil_div(groups.outputs, Outputs);
    const bool direct = std::is_same_v<S, T> && Outputs == 1 && !output.accumulate && phases == 1 && count == size;
    for (index_t b = 0; b < blocks; ++b) {
      T start[Outputs] = {};
      T* to = work.block;
      bool wanted = false;
      for_outputs(g, static_cast<int>(b) * Outputs, static_cast<int>(b + 1) * Outputs, [&](int i, int o) {
        if (bias != nullptr) start[i - static_cast<int>(b) * Outputs] = bias[first + o];
        if constexpr (std::is_same_v<S, T>)
          if (direct) to = &output.tensor.at(n, o, y, s);
        wanted = true;
      });
      if (!wanted) continue;
      detail::convolve_taps<T, Outputs, Blocks>(
          origin + (s - work.steps.begin), work.taps, ring.channel_stride(), weight_stride, groups.inputs,
          weights + (g * blocks + b) * groups.inputs * weight_stride, start, to, size);
      if (direct) continue;
      for_outputs(g, static_cast<int>(b) * Outputs, static_cast<int>(b + 1) * Outputs, [&](int i, int o) {
        const T* from = work.block + (i - static_cast<int>(b) * Outputs) * size;
        if (phases == 1) return output.put_row(n, o, y, s, count, from);
        for (index_t k = 0; k < count; ++k) output.put(n, o, y, (s + k) * phases + phase, from[k]);
      });
    }
    return size;
  }
};

}  // namespace halogen::kernels
