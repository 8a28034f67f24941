// Gradient of a convolution's weights and bias on the host by Winograd's F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5), for
// stride 1: dw = G^T [sum over tiles of (A g A^T) . (B^T d B)] G. Tiles are this rank's own, so sums depend on the
// mesh, as those of the direct kernel do. A point whose gradient is 0 adds nothing, even if its input is infinite or
// NaN: where a sum over a tile of the launch is not finite, it is taken again directly, without such points.
// Accumulation: in the value type within a tile of the launch, in double across tiles and across blocks, in a fixed
// order that does not depend on the number of threads.
#pragma once

#include "halogen/kernels/convolution/weight_gradient.hpp"
#include "halogen/kernels/winograd/winograd_convolution.hpp"

namespace halogen::kernels {
namespace detail {

/// sum[r][q] += sum over tiles of left[tile][r] * right[tile][q]. Not inlined, because g++ would then spill registers.
template <class T, int Rows, int Vectors, int Lanes>
[[gnu::noinline]] void accumulate_block(const T* left, index_t left_stride, const T* right, index_t right_stride,
                                        index_t tiles, T* sum, index_t sum_stride) {
  using V = Vector<T, Lanes>;
  V s[Rows][Vectors];
  HALOGEN_UNROLL
  for (int r = 0; r < Rows; ++r) HALOGEN_UNROLL
  for (int q = 0; q < Vectors; ++q) s[r][q] = load<V>(sum + r * sum_stride + q * Lanes);
  for (index_t t = 0; t < tiles; ++t) {
    V u[Vectors];
    HALOGEN_UNROLL
    for (int q = 0; q < Vectors; ++q) u[q] = load<V>(right + q * Lanes);
    HALOGEN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const T v = left[r];
      HALOGEN_UNROLL
      for (int q = 0; q < Vectors; ++q) s[r][q] += u[q] * v;
    }
    left += left_stride;
    right += right_stride;
  }
  HALOGEN_UNROLL
  for (int r = 0; r < Rows; ++r) HALOGEN_UNROLL
  for (int q = 0; q < Vectors; ++q) store(sum + r * sum_stride + q * Lanes, s[r][q]);
}

/// The sums of products for pairs of channels, [product][left channel][right channel].
template <class T>
struct ProductSums {
  T* data = nullptr;
  index_t left_width, right_width;

  index_t pitch() const { return left_width * right_width + 2 * lanes<T>; }
  std::size_t size() const { return static_cast<std::size_t>(winograd_products * pitch()); }
  /// How often add() calls LinesAhead::next().
  index_t calls() const {
    return winograd_products * product_blocks<T>(right_width) * ceil_div(left_width, product_rows);
  }

  /// Adds the products of `count` transformed tiles, [product][tile][channel].
  void add(const WinogradTransforms<T>& tiles, index_t count, LinesAhead& ahead) const {
    for (int p = 0; p < winograd_products; ++p) {
      const T *left = tiles.left + p * tiles.left_pitch, *right = tiles.right + p * tiles.right_pitch;
      T* sum = data + p * pitch();
      for_each_product_block<T>(right_width, [&]<int Vectors, int Lanes>(index_t o) {
        for_each_product_rows<Vectors>(left_width, ahead, [&]<int Rows>(index_t r) {
          accumulate_block<T, Rows, Vectors, Lanes>(left + r, left_width, right + o, right_width, count,
                                                    sum + r * right_width + o, right_width);
        });
      });
    }
  }

  /// w = G^T sums G for one left channel and the vector of right channels that begins at `right`.
  template <int Window>
  void weights(index_t left, index_t right, Vector<T> (&w)[Window][Window]) const {
    using V = Vector<T>;
    const T* from = data + left * right_width + right;
    V half[Window][6];
    HALOGEN_UNROLL
    for (int j = 0; j < 6; ++j) {
      V u[6], column[Window];
      for (int i = 0; i < 6; ++i) u[i] = load<V>(from + (6 * i + j) * pitch());
      transform_weight_gradient<T>(u, column);
      for (int i = 0; i < Window; ++i) half[i][j] = column[i];
    }
    for (int i = 0; i < Window; ++i) transform_weight_gradient<T>(half[i], w[i]);
  }
};

}  // namespace detail

/// How many tiles across are transformed at once. They are many, because each group reads and writes all sums.
inline constexpr index_t winograd_gradient_group = 48;

/// Partial results as in WeightGradient: [block][outputs * inputs * Window * Window + outputs] in double, first the
/// weights, then the bias.
template <class ExecutionSpace, class S, int Window, class Input = ValueReader<S>>
struct WinogradWeightGradient {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Input input;
  GradientReader<S> gradient;
  int inputs = 0, outputs = 0;
  PlaneWindow shape;
  Tiling tiling;                                    ///< of the output
  int blocks = 1, first_block = 0, last_block = 1;  ///< all blocks, and those to launch
  double* partial = nullptr;

  index_t partial_size() const { return weight_count() + outputs; }

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, last_block - first_block, *this, memory().bytes(), 0);
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const {
    Memory m = memory();
    Scratch scratch = Scratch::of(team, 1, m.bytes());
    m.take(scratch);
    const int block = first_block + team.league_rank();
    double* result = partial + block * partial_size();
    std::fill_n(result, partial_size(), 0.0);
    const Interval tiles = tiling.of_block(block, blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) add_tile(Tile(tiling, t), m, result);
  }

 private:
  static constexpr int tile = winograd_tile(Window), vector = lanes<T>;

  index_t weight_count() const { return index_t{outputs} * inputs * Window * Window; }

  /// The scratch of one team.
  struct Memory {
    ChannelRows<T, Input> input;
    ChannelRows<T, GradientReader<S>> gradient;
    LinesAhead ahead;
    index_t group;
    WinogradTransforms<T> tiles;
    detail::ProductSums<T> sums;

    std::size_t bytes() const {
      std::size_t total = input.bytes() + gradient.bytes() + ahead.bytes();
      for (const std::size_t size : sizes()) total += Scratch::bytes_of<T>(size);
      return total;
    }
    void take(Scratch& scratch) {
      input.take(scratch);
      gradient.take(scratch);
      ahead.take(scratch);
      const auto all = sizes();
      T** to[] = {&tiles.left, &tiles.right, &sums.data};
      for (std::size_t i = 0; i < all.size(); ++i) *to[i] = scratch.take<T>(all[i]);
    }
    std::array<std::size_t, 3> sizes() const {
      return {static_cast<std::size_t>(winograd_products * tiles.left_pitch),
              static_cast<std::size_t>(winograd_products * tiles.right_pitch), sums.size()};
    }
  };

  Memory memory() const {
    const index_t group = winograd_gradient_group;
    const index_t left = winograd_width(inputs, sizeof(T)), right = winograd_width(outputs, sizeof(T));
    const index_t columns = ceil_div(tiling.tile_columns, tile) * tile;
    return {{input, inputs, columns + Window - 1, winograd_points},
            {gradient, outputs, columns, tile},
            LinesAhead(tile * (inputs + 2 * index_t{outputs})),
            group,
            {nullptr, nullptr, left, right, group * left + 2 * vector, group * right + 2 * vector},
            {nullptr, left, right}};
  }

  void add_tile(const Tile& part, Memory& m, double* result) const {
    // Beyond the tile the gradient counts as 0. The inputs that it is multiplied by must still be finite numbers.
    const index_t y0 = part.rows.begin - shape.padding[0], x0 = part.columns.begin - shape.padding[1];
    m.input.set_readable({y0, y0 + part.rows.size() + Window - 1}, {x0, x0 + part.columns.size() + Window - 1});
    m.gradient.set_readable(part.rows, part.columns);
    std::fill_n(m.sums.data, m.sums.size(), T(0));
    double* bias = result + weight_count();
    const index_t across = ceil_div(part.columns.size(), tile);
    index_t next = y0;
    for (index_t y = part.rows.begin; y < part.rows.end; y += tile) {
      for (const index_t end = y - shape.padding[0] + winograd_points; next < end; ++next)
        m.input.read(part.sample, next, x0, across * tile + Window - 1);
      for (index_t row = y; row < y + tile; ++row)
        m.gradient.read(
            part.sample, row, part.columns.begin, across * tile,
            [&](int o, index_t, const T* line, index_t count) { bias[o] += detail::sum_of_row(line, count); });
      aim(m.ahead, part, y);
      for (index_t t = 0; t < across; t += m.group) add_group(m, y, t, std::min(m.group, across - t));
    }
    add_to_result(m, part, result);
  }

  void aim(LinesAhead& ahead, const Tile& part, index_t y) const {
    ahead.aim(tile, part.columns.begin, winograd_gradient_group * tile,
              [&](index_t line, index_t x, bool&) -> const void* {
                const index_t row = line % tile, channel = line / tile;
                if (y + tile + row >= part.rows.end) return nullptr;
                if (channel < inputs)
                  return input.address(0, part.sample, static_cast<int>(channel),
                                       y - shape.padding[0] + winograd_points + row, x - shape.padding[1]);
                const int o = static_cast<int>(channel - inputs);
                return gradient.address(o % 2, part.sample, o / 2, y + tile + row, x);
              });
  }

  /// Adds one group of tiles. Meanwhile it prefetches what the same columns read in the next row of tiles.
  void add_group(Memory& m, index_t y, index_t t, index_t count) const {
    const index_t first = y - shape.padding[0];
    detail::transform_tiles<tile, winograd_points>(m.input, first, t, count, m.tiles.left, m.tiles.left_pitch);
    detail::transform_tiles<tile, tile>(m.gradient, y, t, count, m.tiles.right, m.tiles.right_pitch);
    m.ahead.start(t / m.group, count * tile * static_cast<index_t>(sizeof(S)), m.sums.calls());
    m.sums.add(m.tiles, count, m.ahead);
  }

  /// result[o][c][Window][Window] += the weights of the sums
  void add_to_result(const Memory& m, const Tile& part, double* result) const {
    constexpr int count = Window * Window;
    for (int c = 0; c < inputs; ++c)
      for (int o = 0; o < outputs; o += vector) {
        Vector<T> w[Window][Window];
        m.sums.weights(c, o, w);
        for (int l = 0; l < vector && o + l < outputs; ++l) {
          T taps[count];
          for (int k = 0; k < count; ++k) taps[k] = w[k / Window][k % Window][l];
          if (!detail::all_finite(taps, count))
            detail::sum_counted_taps<Window>(part.sample, gradient, o + l, input, c, part.rows, part.columns,
                                             shape.padding, taps);
          double* to = result + (index_t{o + l} * inputs + c) * count;
          for (int k = 0; k < count; ++k) to[k] += static_cast<double>(taps[k]);
        }
      }
  }
};

}  // namespace halogen::kernels
