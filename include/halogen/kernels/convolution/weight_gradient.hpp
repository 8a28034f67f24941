// Gradient of a convolution's weights and bias: dw[o, c, k] = sum over n, y, x of g[n, o, y, x] * input[n, c, window].
// On the host a point whose g is 0 adds nothing, even if its input is infinite or NaN: where a sum is not finite, it is
// taken again without such points. A fixed number of blocks share the tiles. Sums are in the value type within a tile
// and in double across tiles and blocks. Their order is fixed and does not depend on the number of threads.
#pragma once

#include "halogen/kernels/convolution/counted_products.hpp"
#include "halogen/kernels/convolution/device_weight_gradient.hpp"
#include "halogen/kernels/tiles/device_precision.hpp"
#include "halogen/kernels/tiles/window_rows.hpp"

namespace halogen::kernels {
inline constexpr int gradient_block = vector_registers >= 32 ? 8 : 4;     ///< outputs that one micro-kernel call holds
inline constexpr int gradient_channels = vector_registers >= 32 ? 3 : 2;  ///< and channels of a kernel of one point

namespace detail {

/// gradient_block outputs x Lines lines of inputs, over `rows` rows. A line is a tap of a kernel row, or a channel. It
/// is not inlined. A row of gradients is interleaved, [vector of columns][output][lane], so that one pointer serves all
/// outputs.
template <class T, int Lines>
[[gnu::noinline]] void correlate_rows(const T* const* gradient /* [rows] */,
                                      const T* const (*input)[Lines] /* [rows] */, int rows, index_t columns,
                                      T* sums /* [gradient_block][Lines] */) {
  using V = Vector<T>;
  V sum[gradient_block][Lines];
  HALOGEN_UNROLL
  for (int o = 0; o < gradient_block; ++o) HALOGEN_UNROLL
  for (int k = 0; k < Lines; ++k) sum[o][k] = V{};
  for (int r = 0; r < rows; ++r) {
    const T* g = gradient[r];
    const T* in[Lines];
    HALOGEN_UNROLL
    for (int k = 0; k < Lines; ++k) in[k] = input[r][k];
    for (index_t x = 0; x < columns; x += lanes<T>) {  // rows of g are padded with zeros to whole vectors
      V a[Lines];
      HALOGEN_UNROLL
      for (int k = 0; k < Lines; ++k) a[k] = load<V>(in[k] + x);
      HALOGEN_UNROLL
      for (int o = 0; o < gradient_block; ++o) {
        const V d = load<V>(g + o * lanes<T>);
        HALOGEN_UNROLL
        for (int k = 0; k < Lines; ++k) sum[o][k] += d * a[k];
      }
      g += gradient_block * lanes<T>;
    }
  }
  HALOGEN_UNROLL
  for (int o = 0; o < gradient_block; ++o) HALOGEN_UNROLL
  for (int k = 0; k < Lines; ++k) sums[o * Lines + k] = sum_of_lanes<T>(sum[o][k]);
}

/// The same without points whose gradient is 0.
template <class T, int Lines>
[[gnu::noinline]] void correlate_counted_rows(const T* const* gradient, const T* const (*input)[Lines], int rows,
                                              index_t columns, T* sums) {
  for (int o = 0; o < gradient_block; ++o)
    for (int k = 0; k < Lines; ++k) {
      T sum = 0;
      for (int r = 0; r < rows; ++r)
        for (index_t x = 0; x < columns; ++x) {
          const T g = gradient[r][(x / lanes<T> * gradient_block + o) * lanes<T> + x % lanes<T>];
          if (g != T(0)) sum += g * input[r][k][x];
        }
      sums[o * Lines + k] = sum;
    }
}

/// The sum in the value type, as products are summed within a tile.
template <class T>
T sum_in_lanes(const T* row, index_t count) {
  Vector<T> sums[4] = {};
  index_t i = 0;
  for (; i + 4 * lanes<T> <= count; i += 4 * lanes<T>) HALOGEN_UNROLL
  for (int k = 0; k < 4; ++k) sums[k] += load<Vector<T>>(row + i + k * lanes<T>);
  T sum = sum_of_lanes<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < count; ++i) sum += row[i];
  return sum;
}

}  // namespace detail

inline constexpr index_t weight_gradient_rows = 8;  ///< rows that one micro-kernel call sums over

/// How many columns a tile has, so that its rows of input and gradient stay in L2, and sums in the value type are
/// short.
inline index_t weight_gradient_tile_columns(const PlaneWindow& shape, int inputs, int outputs, index_t columns,
                                            std::size_t value_bytes) {
  const index_t bytes = static_cast<index_t>(value_bytes), vector = vector_bytes / bytes;
  const index_t input_rows = (weight_gradient_rows - 1) * shape.stride[0] + shape.span(0);
  const index_t per_column = bytes * (inputs * input_rows * shape.stride[1] + outputs * weight_gradient_rows);
  const index_t budget = std::min<index_t>(512, 512 * 1024 / per_column / vector * vector);
  return std::max(index_t{1}, std::min(columns, std::max(2 * vector, budget)));
}

/// Partial results [block][outputs * inputs * KH * KW + outputs] in double: first the weights, then the bias.
template <class ExecutionSpace, class S, int KH, int KW, class Input = ValueReader<S>>
struct WeightGradient {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  static constexpr index_t rows_at_once = weight_gradient_rows;

  Input input;
  GradientReader<S> gradient;
  int inputs = 0, outputs = 0;
  PlaneWindow shape;
  Tiling tiling;                                    ///< of the output
  int blocks = 1, first_block = 0, last_block = 1;  ///< all blocks, and those to launch
  double* partial = nullptr;
  bool split = !tf32_is_allowed();

  KOKKOS_FUNCTION index_t partial_size() const { return index_t{outputs} * inputs * KH * KW + outputs; }

  void launch(const ExecutionSpace& space, const char* label) const {
    if constexpr (device::runs_on<ExecutionSpace>)
      device::launch_correlation(space, label, *this);
    else
      launch_tiles(space, label, last_block - first_block, *this, host_bytes(), 0);
  }

  KOKKOS_FORCEINLINE_FUNCTION device::WindowedCorrelation<S, GradientReader<S>, Input> device_part() const {
    return {gradient, input, {1, outputs, inputs}, shape, tiling, blocks, partial, split};
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const { run_on_host(team); }

 private:
  WindowRows<T, Input> rows() const { return {input, shape, inputs, tiling.tile_columns, rows_at_once}; }
  int padded_outputs() const { return static_cast<int>(ceil_div(outputs, gradient_block) * gradient_block); }
  index_t padded_columns() const { return ceil_div(tiling.tile_columns, lanes<T>) * lanes<T>; }
  std::size_t gradient_size() const {
    return static_cast<std::size_t>(padded_outputs() * rows_at_once * padded_columns());
  }
  std::size_t host_bytes() const {
    return rows().bytes() + Scratch::bytes_of<T>(gradient_size()) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(padded_columns()));
  }

  void run_on_host(const Team& team) const {
    WindowRows<T, Input> window = rows();
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    Scratch rest = scratch;
    window.begin(rest, 0, {0, tiling.tile_columns});
    T* g = rest.take<T>(gradient_size());
    T* line = rest.take<T>(static_cast<std::size_t>(padded_columns()));
    double* result = partial + (first_block + team.league_rank()) * partial_size();
    std::fill_n(result, partial_size(), 0.0);
    const Interval tiles = tiling.of_block(first_block + team.league_rank(), blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      Scratch again = scratch;
      window.begin(again, tile.sample, tile.columns);
      for (index_t y = tile.rows.begin; y < tile.rows.end; y += rows_at_once)
        add_rows(window, g, line, tile, {y, std::min(y + rows_at_once, tile.rows.end)}, result);
    }
  }

  void add_rows(WindowRows<T, Input>& window, T* g, T* line, const Tile& tile, Interval rows, double* result) const {
    const index_t columns = tile.columns.size(), padded = ceil_div(columns, lanes<T>) * lanes<T>;
    const index_t row_size = padded * gradient_block, block_size = rows_at_once * row_size;
    const int count = static_cast<int>(rows.size());
    std::fill(line, line + padded, T(0));
    for (int o = 0; o < padded_outputs(); ++o)
      for (int r = 0; r < count; ++r) {
        T* to = g + o / gradient_block * block_size + r * row_size + o % gradient_block * lanes<T>;
        if (o < outputs) {
          gradient.load_row(tile.sample, o, rows.begin + r, tile.columns.begin, columns, line);
          result[index_t{outputs} * inputs * KH * KW + o] += detail::sum_of_row(line, columns);
        } else if (r == 0) {
          std::fill(line, line + padded, T(0));  // outputs that fill up the last block
        }
        for (index_t x = 0; x < padded; x += lanes<T>) store(to + x * gradient_block, load<Vector<T>>(line + x));
      }
    for (index_t y = rows.begin; y < rows.end; ++y) window.advance_to(y);
    for (int o = 0; o < outputs; o += gradient_block) {
      const T* g_rows[rows_at_once];
      for (int r = 0; r < count; ++r) g_rows[r] = g + o / gradient_block * block_size + r * row_size;
      int c = 0;
      if constexpr (KW == 1)
        for (; c + gradient_channels <= inputs; c += gradient_channels)
          for (int ky = 0; ky < KH; ++ky) add_lines<gradient_channels>(window, g_rows, o, c, ky, rows, columns, result);
      for (; c < inputs; ++c)  // the rows of a channel serve all of its taps while they are in the cache
        for (int ky = 0; ky < KH; ++ky) add_lines<KW>(window, g_rows, o, c, ky, rows, columns, result);
    }
  }

  /// Adds the sums of gradient_block outputs with Lines lines: the taps of channel c's kernel row, or, if a kernel row
  /// is one tap, Lines channels from c on. How many lines there are does not change the order of a sum.
  template <int Lines>
  void add_lines(WindowRows<T, Input>& window, const T* const* gradients, int o, int c, int ky, Interval rows,
                 index_t columns, double* result) const {
    constexpr bool of_channels = KW == 1;
    const int count = static_cast<int>(rows.size());
    const T* in_rows[rows_at_once][Lines];
    for (int r = 0; r < count; ++r)
      for (int k = 0; k < Lines; ++k)
        in_rows[r][k] = window.row(c + (of_channels ? k : 0), rows.begin + r, ky) + window.tap(of_channels ? 0 : k);
    T sums[gradient_block * Lines];
    detail::correlate_rows<T, Lines>(gradients, in_rows, count, columns, sums);
    if (!detail::all_finite(sums, gradient_block * Lines))
      detail::correlate_counted_rows<T, Lines>(gradients, in_rows, count, columns, sums);
    constexpr index_t from_line_to_line = of_channels ? KH : 1;
    for (int i = 0; i < gradient_block && o + i < outputs; ++i) {
      double* of_output = result + ((index_t{o + i} * inputs + c) * KH + ky) * KW;
      for (int k = 0; k < Lines; ++k) of_output[k * from_line_to_line] += static_cast<double>(sums[i * Lines + k]);
    }
  }
};

}  // namespace halogen::kernels
