// 3 x 3 and 5 x 5 convolutions of stride 1 on the host by Winograd's F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5), for the
// forward pass and the input gradient. Tiles are on the global grid of multiples of four (two), wherever a rank's piece
// begins. So each output is the same on any mesh, to the bit. Accumulation: input channels in their order within each
// of the 36 products, then the transform, then the bias. The error in float is about 1e-6 of the largest output.
#pragma once

#include <algorithm>

#include "halogen/kernels/convolution/convolution.hpp"
#include "halogen/kernels/tiles/channel_rows.hpp"
#include "halogen/kernels/winograd/winograd_products.hpp"
#include "halogen/kernels/winograd/winograd_transforms.hpp"

namespace halogen::kernels {
/// Size of transformed weights [product][block of outputs][input][output in block].
constexpr index_t winograd_packed_size(int outputs, int inputs, std::size_t value_bytes) {
  return winograd_products * winograd_width(outputs, value_bytes) * inputs;
}

/// Transforms torch's (Out, In, KD, Window, Window). For the input gradient of inputs [first, first + outputs) the
/// weights are flipped and transposed. One work item for each input and vector of outputs.
template <class T, int Window>
struct PackWinogradWeights {
  const T* weights;
  T* packed;
  int outputs, inputs;
  bool transposed;
  int first, layer_inputs, depth;

  index_t work() const { return ceil_div(outputs, lanes<T>) * inputs; }

  static constexpr bool host_alone = true;
  void operator()(const index_t i) const {
    using V = Vector<T>;
    const index_t width = winograd_width(outputs, sizeof(T));
    const int in = static_cast<int>(i % inputs), out = static_cast<int>(i / inputs) * lanes<T>;
    V half[Window][6];  // by columns of the window
    for (int x = 0; x < Window; ++x) {
      V column[Window];
      for (int y = 0; y < Window; ++y) column[y] = tap(in, out, Window * y + x);
      detail::transform_weights<T>(column, half[x]);
    }
    const Interval block = detail::product_block<T>(width, out);
    T* to = packed + block.begin * inputs + in * block.size() + (out - block.begin);
    for (int y = 0; y < 6; ++y) {
      V u[6];
      V row[Window];
      for (int x = 0; x < Window; ++x) row[x] = half[x][y];
      detail::transform_weights<T>(row, u);
      for (int x = 0; x < 6; ++x) store(to + (y * 6 + x) * width * inputs, u[x]);
    }
  }

 private:
  Vector<T> tap(int in, int out, int k) const {
    constexpr int taps = Window * Window;
    Vector<T> result{};
    for (int l = 0; l < lanes<T> && out + l < outputs; ++l)
      result[l] = weights[taps * window_plane(out + l, in, transposed, first, layer_inputs, depth) +
                          (transposed ? taps - 1 - k : k)];
    return result;
  }
};

/// How many tiles across are transformed and multiplied at once. Their transforms and products stay in L2.
inline index_t winograd_group(int inputs, int outputs, std::size_t value_bytes) {
  const index_t width = winograd_width(inputs, value_bytes) + winograd_width(outputs, value_bytes);
  const index_t per_tile = winograd_products * width * static_cast<index_t>(value_bytes);
  return std::clamp<index_t>(192 * 1024 / per_tile / 8 * 8, 16, 48);
}

inline constexpr index_t winograd_tile_rows = 32;

/// How many columns a tile of the launch has: whole groups, so that its ring of rows with so many channels stays in L2.
inline index_t winograd_tile_columns(int tile, int channels, index_t group, index_t columns, std::size_t value_bytes) {
  const index_t per_column =
      winograd_points * winograd_width(channels, value_bytes) * static_cast<index_t>(value_bytes);
  const index_t points = group * tile, most = std::max<index_t>(1, 448 * 1024 / per_column / points);
  const index_t groups = ceil_div(columns, points);
  return ceil_div(groups, ceil_div(groups, most)) * points;
}

/// The transforms of a convolution in one team: [product][tile][channel] of the inputs and of the products' results.
template <class T>
struct WinogradTransforms {
  T *left = nullptr, *right = nullptr;
  index_t left_width, right_width;    ///< from one tile to the next
  index_t left_pitch, right_pitch;    ///< from one product to the next; not a multiple of 4 KiB
  LaneMoments<T>* moments = nullptr;  ///< for each vector of outputs
};

/// Who else uses the transformed inputs of a convolution: nobody. (WinogradWeights of
/// kernels/winograd/winograd_weights.hpp does.)
struct NobodyBeside {
  static index_t lines() { return 0; }  ///< how many channels have rows that it reads
  struct Work {
    template <class... Parts>
    explicit Work(const Parts&...) {}
    template <class... Parts>
    static std::size_t bytes(const Parts&...) {
      return 0;
    }
    template <class... Points>
    void see(const Points&...) {}
    void read(index_t) {}
    template <class... Parts>
    void add(const Parts&...) {}
    template <class... Parts>
    void finish(const Parts&...) {}
  };
  template <class Transforms>
  static index_t calls(const Transforms&) {
    return 0;
  }  ///< of LinesAhead::next() in a group
  static const void* address(int, int, index_t, index_t) { return nullptr; }
};

/// Beside gets the inputs of each group of tiles after the outputs have been computed from them.
template <class ExecutionSpace, class S, int Window, class Reader, class Beside = NobodyBeside>
struct WinogradConvolution {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  using Pack = PackWinogradWeights<T, Window>;

  Reader input;
  TileOutput<S> output;        ///< its tiling begins on the global grid and has whole winograd tiles
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
  using Transforms = WinogradTransforms<T>;
  using Also = typename Beside::Work;
  static constexpr int tile = winograd_tile(Window), vector = lanes<T>;

  index_t group() const { return winograd_group(inputs, output.channels, sizeof(T)); }
  Transforms transforms() const {
    const index_t left = winograd_width(inputs, sizeof(T)), right = winograd_width(output.channels, sizeof(T));
    return {nullptr, nullptr, left, right, group() * left + 2 * vector, group() * right + 2 * vector};
  }
  ChannelRows<T, Reader> channel_rows() const {
    return {input, inputs, output.tiling.tile_columns + Window - 1, winograd_points};
  }
  /// Of a row of tiles: the lines that it writes, the lines that its epilogue reads, and the lines that the next row of
  /// tiles reads.
  LinesAhead lines_ahead() const {
    return LinesAhead(tile * (index_t{Reader::tensors} * inputs + written() * output.channels + beside.lines()));
  }
  /// Whether products overwrite their inputs: if one block has all outputs of a tile, and nobody else reads its inputs.
  static bool in_place(const Transforms& all) {
    return std::is_same_v<Beside, NobodyBeside> && all.left_width == all.right_width &&
           detail::product_blocks<T>(all.right_width) == 1;
  }
  std::size_t host_bytes() const {
    const auto bytes = [](index_t count) { return Scratch::bytes_of<T>(static_cast<std::size_t>(count)); };
    const Transforms all = transforms();
    return channel_rows().bytes() + bytes(winograd_products * all.left_pitch) +
           (in_place(all) ? 0 : bytes(winograd_products * all.right_pitch)) + lines_ahead().bytes() +
           Scratch::bytes_of<RowSums>(static_cast<std::size_t>(output.channels)) +
           Scratch::bytes_of<LaneMoments<T>>(static_cast<std::size_t>(all.right_width / vector)) +
           Also::bytes(beside, all, output.tiling.tile_columns);
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    ChannelRows<T, Reader> rows = channel_rows();
    rows.take(scratch);
    rows.set_readable(readable[0], readable[1]);
    Transforms all = transforms();
    all.left = scratch.take<T>(static_cast<std::size_t>(winograd_products * all.left_pitch));
    all.right =
        in_place(all) ? all.left : scratch.take<T>(static_cast<std::size_t>(winograd_products * all.right_pitch));
    LinesAhead ahead = lines_ahead();
    ahead.take(scratch);
    RowSums* sums = scratch.take<RowSums>(static_cast<std::size_t>(output.channels));
    std::fill_n(sums, output.channels, RowSums{});
    all.moments = scratch.take<LaneMoments<T>>(static_cast<std::size_t>(all.right_width / vector));
    std::fill_n(all.moments, all.right_width / vector, LaneMoments<T>{});

    const Tile part = output.tile(team);
    Also also(beside, all, output.tiling.tile_columns, scratch, part, owned);
    const index_t first = part.columns.begin - padding[1];
    const index_t across = ceil_div(part.columns.size(), tile);
    index_t next = part.rows.begin - padding[0];
    for (index_t y = part.rows.begin; y < part.rows.end; y += tile) {
      for (const index_t end = y - padding[0] + winograd_points; next < end; ++next)
        rows.read(part.sample, next, first, across * tile + Window - 1,
                  [&](int c, index_t x, const T* line, index_t count) { also.see(c, next, x, line, count); });
      also.read(y);
      aim(ahead, part, y);
      for (index_t t = 0; t < across; t += group()) {
        const index_t count = std::min(group(), across - t);
        detail::transform_tiles<tile, winograd_points>(rows, y - padding[0], t, count, all.left, all.left_pitch);
        ahead.start(t / group(), count * tile * static_cast<index_t>(sizeof(S)), calls_of_next(all, count));
        multiply(all, count, ahead);
        transform_outputs(all, part.sample, y, part.columns.begin + t * tile, count);
        also.add(all, t, count, ahead);
      }
      if (sums_in_lanes()) continue;
      const Interval done = intersect({y, y + tile}, owned[0]), width = intersect(part.columns, owned[1]);
      for (int o = 0; o < output.channels; ++o)
        for (index_t row = done.begin; row < done.end; ++row) output.sum_row(part.sample, o, row, width, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o)
      output.keep_sums(team, o, sums_in_lanes() ? all.moments[o / vector].of(o % vector) : sums[o]);
    also.finish(output.number(team), input, padding);
    if (output.streams) stream_fence();
  }

  /// Whether moments are taken when outputs come from the transform. Other epilogues read finished rows, and so do
  /// moments of outputs that are stored in another way.
  bool sums_in_lanes() const {
    return std::is_same_v<S, T> && output.epilogue.kind == RowEpilogue<S>::Kind::moments && !output.accumulate &&
           output.epilogue.mask.data == nullptr;
  }

  /// Whether vectors of so many outputs that begin at this address fill cache lines, and go past the caches. They do if
  /// no epilogue reads them again. The answer is the same one group of tiles further.
  template <int Lanes>
  bool streams(const S* to) const {
    return detail::block_columns<T, Lanes, tile> * sizeof(S) == cache_line && output.streams && !output.accumulate &&
           (!output.summed() || sums_in_lanes()) && begins_line(to) && begins_line(to + output.tensor.row_stride) &&
           begins_line(to + output.tensor.channel_stride);
  }

  index_t written() const { return output.epilogue.kind == RowEpilogue<S>::Kind::affine_sums ? 2 : 1; }

  void aim(LinesAhead& ahead, const Tile& part, index_t y) const {
    constexpr index_t reads = Reader::tensors;
    const int outputs = output.channels;
    ahead.aim(tile, part.columns.begin, group() * tile, [&](index_t line, index_t x, bool& writes) -> const void* {
      const index_t row = line % tile, channel = line / tile;
      writes = channel >= reads * inputs;
      if (!writes)
        return input.address(static_cast<int>(channel % reads), part.sample, static_cast<int>(channel / reads),
                             y - padding[0] + winograd_points + row, x - padding[1]);
      const int o = static_cast<int>(channel - reads * inputs), beyond = o - static_cast<int>(written()) * outputs;
      if (beyond >= 0) {
        writes = false;
        return y + tile + row < part.rows.end ? beside.address(part.sample, beyond, y + tile + row, x) : nullptr;
      }
      if (!owned[0].contains({y + row, y + row + 1})) return nullptr;
      const TensorView<S>& written = o < outputs ? output.tensor : output.epilogue.value;
      const S* to = &written.at(part.sample, o % outputs, y + row, x);
      const bool in_whole_vectors = o < outputs / lanes<T> * lanes<T>;
      return in_whole_vectors && streams<lanes<T>>(to) ? nullptr : to;
    });
  }

  /// How often a group of so many tiles calls LinesAhead::next().
  index_t calls_of_next(const Transforms& all, index_t count) const {
    return winograd_products * detail::product_blocks<T>(all.right_width) * ceil_div(count, detail::product_rows) +
           beside.calls(all);
  }

  void multiply(const Transforms& all, index_t count, LinesAhead& ahead) const {
    const index_t width = all.right_width;
    for (int p = 0; p < winograd_products; ++p) {
      const T* l = all.left + p * all.left_pitch;
      const T* w = weights + p * width * inputs;
      T* r = all.right + p * all.right_pitch;
      detail::for_each_product_block<T>(width, [&]<int Vectors, int Lanes>(index_t o) {
        detail::for_each_product_rows<Vectors>(count, ahead, [&]<int Rows>(index_t t) {
          detail::multiply_block<T, Rows, Vectors, Lanes>(l + t * all.left_width, all.left_width, w + o * inputs,
                                                          inputs, r + t * width + o, width);
        });
      });
    }
  }

  void transform_outputs(const Transforms& all, int sample, index_t y, index_t x, index_t count) const {
    for (index_t t = 0; t < count; t += detail::tiles_in_cache)
      for_each_lanes<T>(output.channels, [&]<int Lanes>(index_t o) {
        transform_outputs<Lanes>(all, all.right + t * all.right_width + o, sample, static_cast<int>(o), y, x + t * tile,
                                 std::min(detail::tiles_in_cache, count - t));
      });
  }

  /// For one vector of outputs: whole blocks go directly to the output, others through memory.
  template <int Lanes>
  void transform_outputs(const Transforms& all, const T* right, int sample, int o, index_t y, index_t x,
                         index_t count) const {
    constexpr index_t columns = detail::block_columns<T, Lanes, tile>, tiles = columns / tile;
    const index_t width = all.right_width;
    Vector<T, Lanes> start{};
    if (bias != nullptr)
      for (int l = 0; l < Lanes && o + l < output.channels; ++l) start[l] = bias[o + l];
    index_t whole = 0;
    if (o + Lanes <= output.channels && y >= owned[0].begin && y + tile <= owned[0].end) {
      const index_t first = ceil_div(std::max<index_t>(0, owned[1].begin - x), columns);
      whole = std::max<index_t>(0, std::min(count * tile, owned[1].end - x) / columns - first);
      for (index_t t = 0; t < first * tiles && t < count; t += tiles)
        partial_block<Lanes>(all, right + t * width, start, sample, o, y, x + t * tile);
      if (whole > 0)
        whole_blocks<Lanes>(all, right + first * tiles * width, start, whole, sample, o, y, x + first * columns);
      whole += first;
    }
    for (index_t t = whole * tiles; t < count; t += tiles)
      partial_block<Lanes>(all, right + t * width, start, sample, o, y, x + t * tile);
  }

  template <int Lanes>
  void whole_blocks(const Transforms& all, const T* products, const Vector<T, Lanes>& start, index_t blocks, int sample,
                    int o, index_t y, index_t x) const {
    S* at = &output.tensor.at(sample, o, y, x);
    const detail::Lines<S> to{at, output.tensor.row_stride, output.tensor.channel_stride, streams<Lanes>(at)};
    const auto transform = [&]<detail::Then then>(const detail::Lines<S>& on) {
      detail::transform_products<T, Lanes, tile, then>(products, all.right_width, all.right_pitch, blocks, start, to,
                                                       on, all.moments + o / vector);
    };
    if (output.accumulate)
      transform.template operator()<detail::Then::add>(
          {&output.base.at(sample, o, y, x), output.base.row_stride, output.base.channel_stride});
    else if (sums_in_lanes())
      transform.template operator()<detail::Then::sum>(to);
    else
      transform.template operator()<detail::Then::nothing>(to);
  }

  template <int Lanes>
  void partial_block(const Transforms& all, const T* products, const Vector<T, Lanes>& start, int sample, int o,
                     index_t y, index_t x) const {
    constexpr int columns = detail::block_columns<T, Lanes, tile>;
    const Interval down = intersect({y, y + tile}, owned[0]), across = intersect({x, x + columns}, owned[1]);
    if (across.empty() || down.empty()) return;
    const int last = std::min(Lanes, output.channels - o);
    T block[tile][Lanes][columns];
    const detail::Lines<T> to{&block[0][0][0], Lanes * columns, columns};
    detail::transform_products<T, Lanes, tile, detail::Then::nothing>(products, all.right_width, all.right_pitch, 1,
                                                                      start, to, to, all.moments);
    for (index_t row = down.begin; row < down.end; ++row)
      for (int l = 0; l < last; ++l)
        for (index_t column = across.begin; column < across.end; ++column)
          output.put(sample, o + l, row, column, block[row - y][l][column - x]);
    if (!sums_in_lanes()) return;
    const auto values = [&](index_t row, index_t column, T* point) {
      for (int l = 0; l < Lanes; ++l) point[l] = block[row - y][l][column - x];
    };
    detail::ChannelMoments<T, Lanes> moments;
    moments.begin(all.moments + o / vector, [&](T* point) { values(down.begin, across.begin, point); });
    for (index_t row = down.begin; row < down.end; ++row)
      for (index_t column = across.begin; column < across.end; ++column) {
        T point[Lanes];
        values(row, column, point);
        moments.add(point);
      }
    moments.keep(all.moments + o / vector, down.size() * across.size());
  }
};

}  // namespace halogen::kernels
