// Direct convolution: one functor over tiles of the output, for the forward pass and for the input gradient.
// Accumulation: bias, then input channels, then taps in row order. The order is the same for every output on any mesh,
// tile and vector block, so results are equal to the bit.
#pragma once

#include "halogen/kernels/convolution/device_convolution.hpp"
#include "halogen/kernels/tiles/device_precision.hpp"
#include "halogen/kernels/tiles/window_rows.hpp"

namespace halogen::kernels {

inline constexpr int channel_block = 4;  ///< output channels that one micro-kernel holds in registers

/// Size of packed weights [output block][input][kh][kw][channel_block]. They are 0 for channels beyond the last in a
/// block.
constexpr index_t packed_size(int outputs, int inputs, int taps) {
  return ceil_div(outputs, channel_block) * channel_block * inputs * taps;
}

/// A packed kernel has taps (kh, kw) from its input `in`, which counts (channel, kd), to its output `out`. This is
/// where they begin in torch's (Out, In, KD, KH, KW). The packed outputs are the layer's outputs from `first` on. If
/// transposed, for the input gradient, they are the layer's inputs, and planes are flipped.
HALOGEN_FUNCTION inline index_t window_plane(int out, int in, bool transposed, int first, int layer_inputs, int depth) {
  if (!transposed) return index_t{first + out} * layer_inputs * depth + in;
  if (depth == 1) return index_t{in} * layer_inputs + first + out;  // divisions would take longer than all the rest
  return (index_t{in / depth} * layer_inputs + first + out) * depth + (depth - 1 - in % depth);
}

/// Packs torch's (Out, In, KD, KH, KW) for the forward pass. For the input gradient of inputs [first, first + outputs)
/// the weights are flipped and transposed.
template <class T>
struct PackWeights {
  const T* weights;
  T* packed;
  int outputs, inputs, taps;
  bool transposed;
  int first;         ///< first of the layer's channels that the packed kernel computes
  int layer_inputs;  ///< channels
  int depth;         ///< KD

  /// One work item for each pair of an output block and an input, so that each divides only once.
  index_t work() const { return ceil_div(outputs, channel_block) * inputs; }

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int in = static_cast<int>(i % inputs), block = static_cast<int>(i / inputs) * channel_block;
    T* to = packed + i * taps * channel_block;
    const T* from = weights + window_plane(block, in, transposed, first, layer_inputs, depth) * taps;
    const index_t from_output_to_output = index_t{transposed ? 1 : layer_inputs} * depth * taps;
    if (taps == 1 && block + channel_block <= outputs) {
      for (int o = 0; o < channel_block; ++o) to[o] = from[o * from_output_to_output];
      return;
    }
    for (int o = 0; o < channel_block; ++o, from += from_output_to_output) {
      const bool stands = block + o < outputs;
      for (int tap = 0; tap < taps; ++tap)
        to[tap * channel_block + o] = stands ? from[transposed ? taps - 1 - tap : tap] : T(0);
    }
  }
};

namespace detail {

/// channel_block x (Blocks vectors) outputs from `inputs` channels. It is not inlined, because g++ would then spill
/// registers.
template <class T, int KH, int KW, int Blocks>
[[gnu::noinline]] void convolve_block(const T* const* rows, index_t channel_stride, const index_t* taps,
                                      const T* weights, const T* start, int inputs,
                                      T* out /* [channel_block][Blocks * lanes] */) {
  using V = Vector<T>;
  V sum[channel_block][Blocks];
  HALOGEN_UNROLL
  for (int o = 0; o < channel_block; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b) sum[o][b] = V{} + start[o];
  const T* row[KH];
  for (int ky = 0; ky < KH; ++ky) row[ky] = rows[ky];
  for (int c = 0; c < inputs; ++c) {
    HALOGEN_UNROLL
    for (int ky = 0; ky < KH; ++ky) {
      HALOGEN_UNROLL
      for (int kx = 0; kx < KW; ++kx) {
        const T* in = row[ky] + taps[kx];
        HALOGEN_OPAQUE(in);
        V x[Blocks];
        HALOGEN_UNROLL
        for (int b = 0; b < Blocks; ++b) x[b] = load<V>(in + b * lanes<T>);
        HALOGEN_UNROLL
        for (int o = 0; o < channel_block; ++o) {
          const T w = weights[o];
          HALOGEN_UNROLL
          for (int b = 0; b < Blocks; ++b) sum[o][b] += x[b] * w;
        }
        weights += channel_block;
      }
      row[ky] += channel_stride;
    }
  }
  HALOGEN_UNROLL
  for (int o = 0; o < channel_block; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b) store<V>(out + (o * Blocks + b) * lanes<T>, sum[o][b]);
}

inline constexpr int wide_block = vector_registers >= 32 ? 6 : 3;

}  // namespace detail

/// How many columns a tile has, so that its ring of input rows stays in L2.
inline index_t convolution_tile_columns(const PlaneWindow& shape, int inputs, index_t columns,
                                        std::size_t value_bytes) {
  const index_t bytes = static_cast<index_t>(value_bytes);
  const index_t budget = 384 * 1024 / (bytes * inputs * shape.span(0) * shape.stride[1]);
  const index_t block = detail::wide_block * vector_bytes / bytes;
  return std::max(index_t{1}, std::min(columns, std::max(block, budget / block * block)));
}

/// Reader is a ValueReader forward, and a GradientReader for the input gradient. KH and KW are the only numbers in the
/// type.
template <class ExecutionSpace, class S, class Reader, int KH, int KW>
struct Convolution {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Reader input;
  TileOutput<S> output;
  const T* weights = nullptr;  ///< packed
  const T* bias = nullptr;
  int inputs = 0;
  PlaneWindow shape;
  bool split = !tf32_is_allowed();

  void launch(const ExecutionSpace& space, const char* label) const {
    if constexpr (device::runs_on<ExecutionSpace>)
      device::launch_convolution(space, label, *this);
    else
      launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  KOKKOS_FORCEINLINE_FUNCTION device::WindowedConvolution<S, Reader> device_part() const {
    return {input, output, weights, bias, {1, output.channels, inputs}, channel_block, 0, {shape, false}, split};
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const { run_on_host(team); }

 private:
  WindowRows<T, Reader> rows() const { return {input, shape, inputs, output.tiling.tile_columns, 1}; }
  static constexpr index_t block_size = channel_block * detail::wide_block * lanes<T>;
  std::size_t outputs() const { return static_cast<std::size_t>(output.channels); }
  std::size_t host_bytes() const {
    return rows().bytes() + Scratch::bytes_of<T>(block_size) + Scratch::bytes_of<RowSums>(outputs());
  }

  void run_on_host(const Team& team) const {
    WindowRows<T, Reader> window = rows();
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    const Tile tile = output.tile(team);
    window.begin(scratch, tile.sample, tile.columns);
    T* block = scratch.take<T>(block_size);
    RowSums* sums = scratch.take<RowSums>(outputs());
    std::fill_n(sums, output.channels, RowSums{});
    index_t taps[KW];
    for (int k = 0; k < KW; ++k) taps[k] = window.tap(k);
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      window.advance_to(y);
      const T* first[KH];
      for (int k = 0; k < KH; ++k) first[k] = window.row(0, y, k);
      for (index_t x = 0; x < tile.columns.size();)
        x += columns_at(tile, y, x, first, window.channel_stride(), taps, block);
      for (int o = 0; o < output.channels; ++o) output.sum_row(tile.sample, o, y, tile.columns, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }

  index_t columns_at(const Tile& tile, index_t y, index_t x, const T* const* first, index_t channel_stride,
                     const index_t* taps, T* block) const {
    const index_t left = tile.columns.size() - x;
    if (left > (detail::wide_block - 1) * lanes<T>)
      return blocks<detail::wide_block>(tile, y, x, first, channel_stride, taps, block);
    if (left > 2 * lanes<T>) return blocks<3>(tile, y, x, first, channel_stride, taps, block);
    if (left > lanes<T>) return blocks<2>(tile, y, x, first, channel_stride, taps, block);
    return blocks<1>(tile, y, x, first, channel_stride, taps, block);
  }

  template <int Blocks>
  index_t blocks(const Tile& tile, index_t y, index_t x, const T* const* first, index_t channel_stride,
                 const index_t* taps, T* block) const {
    const T* rows_at[KH];
    for (int k = 0; k < KH; ++k) rows_at[k] = first[k] + x;
    const index_t count = std::min<index_t>(Blocks * lanes<T>, tile.columns.size() - x);
    for (int o = 0; o < output.channels; o += channel_block) {
      T start[channel_block];
      for (int i = 0; i < channel_block; ++i)
        start[i] = bias != nullptr && o + i < output.channels ? bias[o + i] : T(0);
      detail::convolve_block<T, KH, KW, Blocks>(rows_at, channel_stride, taps, weights + index_t{o} * inputs * KH * KW,
                                                start, inputs, block);
      for (int i = 0; i < channel_block && o + i < output.channels; ++i)
        output.put_row(tile.sample, o + i, y, tile.columns.begin + x, count, block + i * Blocks * lanes<T>);
    }
    return Blocks * lanes<T>;
  }
};

}  // namespace halogen::kernels
