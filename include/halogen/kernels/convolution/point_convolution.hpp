// Host: convolution by a kernel of one point. It is a product of matrices: the weights times the points of a tile.
// Accumulation: bias, then input channels, as in the direct convolution, so results are equal to the bit on any mesh.
#pragma once

#include <utility>

#include "halogen/kernels/convolution/convolution.hpp"
#include "halogen/kernels/tiles/point_rows.hpp"

namespace halogen::kernels {
namespace detail {

inline constexpr index_t point_channels = 64;  ///< input channels whose points stay in L1 while all outputs read them

/// Adds `inputs` channels to channel_block outputs of Blocks wide vectors of points. The sums begin with `start`, or if
/// that is null with what `out` has.
template <class T, int Blocks>
void multiply_points(const T* in, index_t pitch, const T* weights, index_t inputs, const T* start,
                     T* out /* [channel_block][Blocks * wide_lanes] */) {
  constexpr int wide = wide_lanes<T>;
  using V = Vector<T, wide>;
  V sum[channel_block][Blocks];
  HALOGEN_UNROLL
  for (int o = 0; o < channel_block; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b)
    sum[o][b] = start != nullptr ? V{} + start[o] : load<V>(out + (o * Blocks + b) * wide);
  for (index_t c = 0; c < inputs; ++c, in += pitch, weights += channel_block) {
    V x[Blocks];
    HALOGEN_UNROLL
    for (int b = 0; b < Blocks; ++b) x[b] = load<V>(in + b * wide);
    HALOGEN_UNROLL
    for (int o = 0; o < channel_block; ++o) {
      const T w = weights[o];
      HALOGEN_UNROLL
      for (int b = 0; b < Blocks; ++b) sum[o][b] += x[b] * w;
    }
  }
  HALOGEN_UNROLL
  for (int o = 0; o < channel_block; ++o) HALOGEN_UNROLL
  for (int b = 0; b < Blocks; ++b) store<V>(out + (o * Blocks + b) * wide, sum[o][b]);
}

/// That function for 1 to wide_block vectors.
template <class T>
auto multiply_points_of(int vectors) {
  return []<int... B>(int number, std::integer_sequence<int, B...>) {
    constexpr decltype(&multiply_points<T, 1>) functions[] = {&multiply_points<T, B + 1>...};
    return functions[number - 1];
  }(vectors, std::make_integer_sequence<int, wide_block>{});
}

}  // namespace detail

/// The weights are packed as those of the direct convolution (PackWeights).
template <class ExecutionSpace, class S, class Reader>
struct PointConvolution {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Reader input;
  TileOutput<S> output;
  const T* weights = nullptr;  ///< packed
  const T* bias = nullptr;
  int inputs = 0;
  PlaneWindow shape;  ///< a kernel of 1 x 1, any stride and padding

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    const Tile tile = output.tile(team);
    PointRows<T, Reader> rows = point_rows();
    rows.take(scratch);
    T* points = scratch.take<T>(points_size());
    T* products = scratch.take<T>(products_size());
    RowSums* sums = scratch.take<RowSums>(static_cast<std::size_t>(output.channels));
    std::fill_n(sums, output.channels, RowSums{});
    const index_t at_once = rows_at_once();
    for (index_t y = tile.rows.begin; y < tile.rows.end; y += at_once) {
      const Interval strip = {y, std::min(y + at_once, tile.rows.end)};
      for (int c = 0; c < inputs; ++c) rows.load(tile.sample, c, strip, tile.columns, points + c * pitch());
      run_strip(tile, strip, points, products);
      for (int o = 0; o < output.channels; ++o)
        for (index_t row = strip.begin; row < strip.end; ++row)
          output.sum_row(tile.sample, o, row, tile.columns, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }

 private:
  static constexpr index_t wide = wide_lanes<T>, most = detail::wide_block * wide;

  PointRows<T, Reader> point_rows() const { return {input, shape, output.tiling.tile_columns}; }
  index_t rows_at_once() const { return strip_rows(output.tiling, inputs, sizeof(T)); }
  /// From channel to channel: whole vectors, since the last one may reach beyond the last point, and one more, since
  /// channels must not share cache sets.
  index_t pitch() const { return ceil_div(rows_at_once() * output.tiling.tile_columns, wide) * wide + wide; }
  std::size_t points_size() const { return static_cast<std::size_t>(inputs * pitch()); }
  std::size_t products_size() const {
    return static_cast<std::size_t>(ceil_div(output.channels, channel_block) * channel_block * most);
  }
  std::size_t host_bytes() const {
    return point_rows().bytes() + Scratch::bytes_of<T>(points_size()) + Scratch::bytes_of<T>(products_size()) +
           Scratch::bytes_of<RowSums>(static_cast<std::size_t>(output.channels));
  }

  /// Divides the points into blocks of as equal a width as whole vectors allow.
  void run_strip(const Tile& tile, const Interval& strip, const T* points, T* products) const {
    const index_t vectors = ceil_div(strip.size() * tile.columns.size(), wide);
    const index_t blocks = ceil_div(vectors, index_t{detail::wide_block});
    for (index_t b = 0; b < blocks; ++b) {
      const Interval part = {vectors * b / blocks, vectors * (b + 1) / blocks};
      multiply(tile, strip, part.begin * wide, static_cast<int>(part.size()), points, products);
    }
  }

  /// Computes all outputs of `vectors` vectors of points that begin with the strip's point p.
  void multiply(const Tile& tile, const Interval& strip, index_t p, int vectors, const T* points, T* products) const {
    const index_t block = vectors * wide;
    const auto multiply_points = detail::multiply_points_of<T>(vectors);
    for (index_t c = 0; c < inputs; c += detail::point_channels)
      for (int o = 0; o < output.channels; o += channel_block) {
        T start[channel_block];
        for (int i = 0; i < channel_block; ++i)
          start[i] = bias != nullptr && o + i < output.channels ? bias[o + i] : T(0);
        multiply_points(points + c * pitch() + p, pitch(), weights + index_t{o} * inputs + c * channel_block,
                        std::min(detail::point_channels, inputs - c), c == 0 ? start : nullptr, products + o * block);
      }
    const index_t columns = tile.columns.size(), end = std::min(p + block, strip.size() * columns);
    for (int o = 0; o < output.channels; ++o)
      for (index_t at = p; at < end;) {
        const index_t row = at / columns, x = at % columns, count = std::min(columns - x, end - at);
        output.put_row(tile.sample, o, strip.begin + row, tile.columns.begin + x, count, products + o * block + at - p);
        at += count;
      }
  }
};

}  // namespace halogen::kernels
