// Convolutions of few channels on the host by Winograd's one-dimensional F(4, 3): it transforms down the columns, and
// sums taps across one by one. Vectors are along the rows, so no number of channels leaves lanes empty. The
// two-dimensional algorithm (kernels/winograd/winograd_convolution.hpp) needs half as many products, but must transpose
// rows to vectors of channels and back. Tiles of rows are on the global grid, every vector is computed whole, and all
// lanes in the same way. So an output is the same on any mesh, to the bit. Accumulation: for each of the 6 products
// input channels in their order, then taps across in theirs; then the transform, then the bias.
#pragma once

#include <algorithm>

#include "halogen/kernels/winograd/winograd_convolution.hpp"

namespace halogen::kernels {
namespace detail {

inline constexpr int line_outputs = vector_registers >= 32 ? 8 : 4;  ///< that one micro-kernel has
inline constexpr int line_vectors = 3;                               ///< of each output

/// Calls f<outputs>(first) for blocks of channels [0, channels). The last block may reach beyond the end.
template <class F>
inline void for_each_line_block(int channels, F&& f) {
  constexpr int half = line_outputs / 2, quarter = line_outputs / 4;
  int o = 0;
  for (; o + half < channels; o += line_outputs) f.template operator()<line_outputs>(o);
  if (o + quarter < channels)
    f.template operator()<half>(o);
  else if (o < channels)
    f.template operator()<quarter>(o);
}

/// to[o][vector] = sum over channels and taps across. Not inlined, because g++ would then spill registers.
template <class T, int Window, int Outputs, int Vectors>
[[gnu::noinline]] void convolve_lines(const T* from, index_t channel_stride, int channels, const T* weights, T* to) {
  using V = Vector<T, wide_lanes<T>>;
  V sum[Outputs][Vectors];
  HALOGEN_UNROLL
  for (int o = 0; o < Outputs; ++o) HALOGEN_UNROLL
  for (int x = 0; x < Vectors; ++x) sum[o][x] = V{};
  for (int c = 0; c < channels; ++c, from += channel_stride) {
    HALOGEN_UNROLL
    for (int k = 0; k < Window; ++k, weights += Outputs) {
      V v[Vectors];
      HALOGEN_UNROLL
      for (int x = 0; x < Vectors; ++x) v[x] = load<V>(from + k + x * wide_lanes<T>);
      HALOGEN_UNROLL
      for (int o = 0; o < Outputs; ++o) {
        const T w = weights[o];
        HALOGEN_UNROLL
        for (int x = 0; x < Vectors; ++x) sum[o][x] += v[x] * w;
      }
    }
  }
  HALOGEN_UNROLL
  for (int o = 0; o < Outputs; ++o) HALOGEN_UNROLL
  for (int x = 0; x < Vectors; ++x) store(to + (o * Vectors + x) * wide_lanes<T>, sum[o][x]);
}

/// to[i][x] = the transform of points from[...][x] down the columns, for whole vectors from `begin` on until they reach
/// `end`.
template <class T, int Points>
[[gnu::noinline]] void transform_lines(const T* const (&from)[Points], index_t begin, index_t end, T* to,
                                       index_t pitch) {
  using V = Vector<T, wide_lanes<T>>;
  for (index_t x = begin; x < end; x += wide_lanes<T>) {
    V d[Points], v[winograd_points];
    HALOGEN_UNROLL
    for (int i = 0; i < Points; ++i) d[i] = load<V>(from[i] + x);
    to_products<T>(d, v);
    HALOGEN_UNROLL
    for (int i = 0; i < winograd_points; ++i) store(to + i * pitch + x, v[i]);
  }
}

/// Rows to[i] = start + the outputs of products[i * pitch], `vectors` vectors of each. With `streams` they are stored
/// past the caches; the rows then begin at cache lines. Not inlined, because g++ may contract two inlined copies in
/// different ways.
template <class T, int Tile, class S>
[[gnu::noinline]] void transform_lines_back(const T* products, index_t pitch, int vectors, T start, S* to,
                                            index_t row_stride, bool streams) {
  using V = Vector<T, wide_lanes<T>>;
  for (int x = 0; x < vectors * wide_lanes<T>; x += wide_lanes<T>) {
    V m[winograd_points], y[Tile];
    HALOGEN_UNROLL
    for (int i = 0; i < winograd_points; ++i) m[i] = load<V>(products + i * pitch + x);
    transform_output<T>(m, y);
    HALOGEN_UNROLL
    for (int i = 0; i < Tile; ++i) {
      const V row = y[i] + start;
      if (std::is_same_v<S, T> && streams)
        stream(to + i * row_stride + x, row);
      else
        store<V>(to + i * row_stride + x, row);
    }
  }
}

}  // namespace detail

/// Size of transformed weights [block of outputs][product][input][tap across][output in block]. They are 0 for channels
/// beyond the last in a block.
constexpr index_t winograd_rows_packed_size(int outputs, int inputs, int window) {
  return ceil_div(outputs, detail::line_outputs) * detail::line_outputs * winograd_points * inputs * window;
}

/// Transforms torch's (Out, In, KD, Window, Window). For the input gradient of inputs [first, first + outputs) the
/// weights are flipped and transposed. One work item for each pair of channels.
template <class T, int Window>
struct PackWinogradRows {
  const T* weights;
  T* packed;
  int outputs, inputs;
  bool transposed;
  int first, layer_inputs, depth;

  index_t work() const { return winograd_rows_packed_size(outputs, inputs, Window) / (winograd_points * Window); }

  static constexpr bool host_alone = true;
  void operator()(const index_t i) const {
    const int in = static_cast<int>(i % inputs), out = static_cast<int>(i / inputs);
    detail::for_each_line_block(outputs, [&]<int Outputs>(int o) {
      if (out < o || out >= o + Outputs) return;
      T* to = packed + (index_t{o} * winograd_points * inputs + in * Outputs) * Window + (out - o);
      for (int x = 0; x < Window; ++x, to += Outputs) {
        T column[Window], u[winograd_points];
        for (int y = 0; y < Window; ++y) column[y] = tap(in, out, Window * y + x);
        detail::transform_weights<T>(column, u);
        for (int p = 0; p < winograd_points; ++p) to[p * index_t{inputs} * Window * Outputs] = u[p];
      }
    });
  }

 private:
  T tap(int in, int out, int k) const {
    constexpr int taps = Window * Window;
    if (out >= outputs) return T(0);
    return weights[taps * window_plane(out, in, transposed, first, layer_inputs, depth) +
                   (transposed ? taps - 1 - k : k)];
  }
};

/// How many columns a tile of the launch has, so that rows of so many channels and their transforms stay in L2.
inline index_t winograd_rows_columns(int channels, index_t columns, std::size_t value_bytes) {
  const index_t per_column = 2 * winograd_points * channels * static_cast<index_t>(value_bytes);
  const index_t block = detail::line_vectors * wide_vector_bytes / static_cast<index_t>(value_bytes);
  const index_t most = std::max<index_t>(1, 448 * 1024 / per_column / block) * block;
  const index_t parts = ceil_div(columns, most);
  return std::max<index_t>(1, ceil_div(ceil_div(columns, parts), block) * block);
}

/// Host: rows as a reader sees them, transformed down the columns: [product][channel][x], for Points rows at a time.
/// After the columns there are as many zeros as a vector has lanes. Taps read them, and they must be zeros because 0 *
/// NaN is NaN.
template <class T, class Reader, int Points>
class TransformedLines {
 public:
  static constexpr int lanes = wide_lanes<T>;

  /// columns: the most columns at a time. Each line has one vector more, and an odd number of cache lines.
  TransformedLines(const Reader& reader, int channels, index_t columns) : reader_(reader), channels_(channels) {
    constexpr index_t line = cache_line / static_cast<index_t>(sizeof(T));
    const index_t lines = ceil_div(ceil_div(columns, lanes) * lanes + lanes, line);
    pitch_ = (lines + (lines % 2 == 0)) * line;
  }

  std::size_t bytes() const {
    return Scratch::bytes_of<T>(size(Points)) + Scratch::bytes_of<T>(size(winograd_points)) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(pitch_));
  }
  void take(Scratch& scratch) {
    ring_ = scratch.take<T>(size(Points));
    transforms_ = scratch.take<T>(size(winograd_points));
    zeros_ = scratch.take<T>(static_cast<std::size_t>(pitch_));
    std::fill_n(zeros_, pitch_, T(0));
  }
  /// Points outside of these rows and columns are read as 0, whatever the reader has there.
  void set_readable(const Interval& rows, const Interval& columns) { readable_[0] = rows, readable_[1] = columns; }

  index_t pitch() const { return pitch_; }  ///< from one channel to the next
  const T* product(int p) const { return transforms_ + p * channels_ * pitch_; }

  /// Transforms rows [first, first + Points). The rows before `next` were read the last time. For each other row it
  /// calls visit(channel, row, x, line, count) with the readable points, which begin at column x.
  template <class Visit>
  void read(int sample, const Interval& columns, index_t first, index_t next, Visit visit) {
    for (int c = 0; c < channels_; ++c) read_channel(sample, c, columns, first, next, visit);
  }
  void read(int sample, const Interval& columns, index_t first, index_t next) {
    read(sample, columns, first, next, [](int, index_t, index_t, const T*, index_t) {});
  }

 private:
  std::size_t size(int rows) const { return static_cast<std::size_t>(rows * channels_ * pitch_); }

  /// Rows that are in memory are read there, except for their ends. Other rows are read once, into the channel's ring.
  template <class Visit>
  void read_channel(int sample, int c, const Interval& columns, index_t first, index_t next, Visit& visit) {
    const Interval inside = reader_.frame.columns_inside(intersect(readable_[1], columns));
    const Interval present = {inside.begin - columns.begin, inside.end - columns.begin};
    const Interval middle = {ceil_div(present.begin, lanes) * lanes, present.end / lanes * lanes};
    const PlaneAt plane = reader_.depth.input(sample, c);
    const T *lines[Points], *stands[Points];
    bool all_stand = !middle.empty();
    for (int i = 0; i < Points; ++i) {
      const index_t row = first + i;
      lines[i] = stands[i] = zeros_;
      if (inside.empty() || row < readable_[0].begin || row >= readable_[0].end || reader_.frame.outside(1, row))
        continue;
      T* line = ring_ + (c * Points + floor_mod(row, Points)) * pitch_;
      lines[i] = line;
      const T* at = middle.empty() ? nullptr : reader_.standing_row(plane, row, inside.begin, inside.size());
      if (at != nullptr) {
        stands[i] = at - present.begin;
        std::fill(line, line + present.begin, T(0));
        std::copy(stands[i] + present.begin, stands[i] + middle.begin, line + present.begin);
        std::copy(stands[i] + middle.end, stands[i] + present.end, line + middle.end);
        std::fill(line + present.end, line + pitch_, T(0));
      } else {
        all_stand = false;
        if (row >= next) {
          std::fill(line, line + present.begin, T(0));
          reader_.load_row(plane, row, inside.begin, inside.size(), line + present.begin);
          std::fill(line + present.end, line + pitch_, T(0));
        }
      }
      if (row >= next) visit(c, row, inside.begin, at != nullptr ? at : line + present.begin, inside.size());
    }
    T* to = transforms_ + c * pitch_;
    const index_t product = channels_ * pitch_, end = columns.size() + lanes;
    if (!all_stand) return detail::transform_lines<T>(lines, 0, end, to, product);
    detail::transform_lines<T>(lines, 0, middle.begin, to, product);
    detail::transform_lines<T>(stands, middle.begin, middle.end, to, product);
    detail::transform_lines<T>(lines, middle.end, end, to, product);
  }

  const Reader& reader_;
  int channels_;
  index_t pitch_;
  Interval readable_[2];
  T *ring_ = nullptr, *transforms_ = nullptr, *zeros_ = nullptr;
};

/// Beside gets the transformed inputs of each row of tiles after the outputs have been computed from them.
template <class ExecutionSpace, class S, int Window, class Reader, class Beside = NobodyBeside>
struct WinogradRows {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  using Pack = PackWinogradRows<T, Window>;

  Reader input;
  TileOutput<S> output;        ///< its tiling begins on the global grid of rows
  const T* weights = nullptr;  ///< packed
  const T* bias = nullptr;
  int inputs = 0;
  index_t padding[2] = {0, 0};  ///< output o reads inputs from o - padding on; may be negative in an adjoint
  Interval readable[2];         ///< inputs that some output of the whole field reads; others count as 0
  Interval owned[2];            ///< rows and columns of the output to compute
  Beside beside;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const { run_on_host(team); }

 private:
  using Lines = TransformedLines<T, Reader, winograd_points>;
  using Also = typename Beside::Work;
  static constexpr int tile = winograd_tile(Window), lanes = wide_lanes<T>, vectors = detail::line_vectors;
  static constexpr index_t block_values = detail::line_outputs * vectors * lanes;

  Lines lines() const { return {input, inputs, output.tiling.tile_columns + Window - 1}; }
  std::size_t outputs() const { return static_cast<std::size_t>(output.channels); }
  std::size_t host_bytes() const {
    return lines().bytes() + Scratch::bytes_of<T>(winograd_points * block_values) +
           Scratch::bytes_of<T>(tile * vectors * lanes) + Scratch::bytes_of<RowSums>(outputs()) +
           Also::bytes(beside, output.tiling.tile_columns);
  }

  /// The memory in which a team works.
  struct Work {
    const Tile part;
    Lines lines;
    T *products, *rows;  ///< for one block of outputs: [product][output][x], and [row][x]
  };

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    Work work{output.tile(team), lines(), scratch.take<T>(winograd_points * block_values),
              scratch.take<T>(tile * vectors * lanes)};
    work.lines.take(scratch);
    work.lines.set_readable(readable[0], readable[1]);
    RowSums* sums = scratch.take<RowSums>(outputs());
    std::fill_n(sums, outputs(), RowSums{});
    const Tile& part = work.part;
    Also also(beside, output.tiling.tile_columns, scratch, part, owned);

    const Interval columns = {part.columns.begin - padding[1], part.columns.end - padding[1] + Window - 1};
    index_t next = part.rows.begin - padding[0];
    for (index_t y = part.rows.begin; y < part.rows.end; y += tile) {
      work.lines.read(
          part.sample, columns, y - padding[0], next,
          [&](int c, index_t row, index_t x, const T* line, index_t count) { also.see(c, row, x, line, count); });
      next = y - padding[0] + winograd_points;
      for (index_t x = 0; x < part.columns.size();) {
        const index_t left = part.columns.size() - x;
        if (left > 2 * lanes)
          x += block<vectors>(work, y, x);
        else if (left > lanes)
          x += block<2>(work, y, x);
        else
          x += block<1>(work, y, x);
      }
      const Interval wanted = intersect({y, y + tile}, owned[0]);
      for (int o = 0; o < output.channels; ++o)
        for (index_t row = wanted.begin; row < wanted.end; ++row)
          output.sum_row(part.sample, o, row, part.columns, sums[o]);
      also.add(work.lines, y);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
    also.finish(output.number(team), input, padding);
    if (output.streams) stream_fence();
  }

  /// Computes all outputs of so many vectors, beginning with the tile's column x.
  template <int Vectors>
  index_t block(const Work& work, index_t y, index_t x) const {
    constexpr index_t size = Vectors * lanes;
    const Interval wanted = intersect({y, y + tile}, owned[0]);
    const index_t count = std::min(size, work.part.columns.size() - x), column = work.part.columns.begin + x;
    const bool whole = count == size && wanted.size() == tile && !output.accumulate;
    const int sample = work.part.sample;
    detail::for_each_line_block(output.channels, [&]<int Outputs>(int first) {
      const T* w = weights + index_t{first} * winograd_points * inputs * Window;
      for (int p = 0; p < winograd_points; ++p, w += index_t{inputs} * Window * Outputs)
        detail::convolve_lines<T, Window, Outputs, Vectors>(work.lines.product(p) + x, work.lines.pitch(), inputs, w,
                                                            work.products + p * block_values);
      for (int o = first; o < std::min(first + Outputs, output.channels); ++o) {
        const T* products = work.products + (o - first) * size;
        const T start = bias != nullptr ? bias[o] : T(0);
        if (whole) {
          S* to = &output.tensor.at(sample, o, y, column);
          const index_t stride = output.tensor.row_stride;
          const bool streams = output.streams && !output.summed() && begins_line(to) && begins_line(to + stride);
          detail::transform_lines_back<T, tile>(products, block_values, Vectors, start, to, stride, streams);
          continue;
        }
        detail::transform_lines_back<T, tile>(products, block_values, Vectors, start, work.rows, size, false);
        for (index_t row = wanted.begin; row < wanted.end; ++row)
          output.put_row(sample, o, row, column, count, work.rows + (row - y) * size);
      }
    });
    return size;
  }
};

}  // namespace halogen::kernels
