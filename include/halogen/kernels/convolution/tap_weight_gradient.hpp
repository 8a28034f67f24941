// Gradient of the weights of grouped and transposed windows: dw[a, c, k] = sum over n and p of points[n, a, p] *
// window[n, group(a)'s c, p * stride - padding + k * dilation]. For a convolution, `points` is the gradient of its
// output and `window` its input. For a transposed convolution it is the other way round. A point whose gradient is 0
// adds nothing, and accumulation is as in weight_gradient.hpp: in the value type within a tile of rows, in double
// across tiles and blocks.
#pragma once

#include "halogen/kernels/convolution/weight_gradient.hpp"
#include "halogen/kernels/tiles/tap_rows.hpp"

namespace halogen::kernels {
namespace detail {

inline constexpr int correlated_taps = 9;  ///< taps that one micro-kernel call has in registers
inline constexpr index_t correlated_rows = 8;

/// Sums over `rows` rows of points * window for Taps taps. Their first elements are at window[row * Taps + tap].
template <class T, int Taps>
[[gnu::noinline]] void correlate_taps(const T* const* points, const T* const* window, int rows, index_t columns,
                                      T* sums) {
  using V = Vector<T>;
  V sum[Taps];
  HALOGEN_UNROLL
  for (int k = 0; k < Taps; ++k) sum[k] = V{};
  for (int r = 0; r < rows; ++r) {
    const T* in[Taps];
    HALOGEN_UNROLL
    for (int k = 0; k < Taps; ++k) in[k] = window[r * Taps + k];
    for (index_t x = 0; x < columns; x += lanes<T>) {  // rows of points are padded with zeros to whole vectors
      const V p = load<V>(points[r] + x);
      HALOGEN_UNROLL
      for (int k = 0; k < Taps; ++k) sum[k] += p * load<V>(in[k] + x);
    }
  }
  HALOGEN_UNROLL
  for (int k = 0; k < Taps; ++k) sums[k] = sum_of_lanes<T>(sum[k]);
}

}  // namespace detail

/// Partial results [block][points' channels * window's channels of a group * taps + points' channels] in double: first
/// the weights, then the sums of the points, which are the bias gradient of a convolution.
template <class ExecutionSpace, class S, class Points, class Windowed>
struct TapWeightGradient {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Points points;
  Windowed window;
  ChannelGroups groups;  ///< outputs: channels of points, inputs: of window
  PlaneWindow shape;
  Tiling tiling;                                    ///< of the points
  int blocks = 1, first_block = 0, last_block = 1;  ///< all blocks, and those to launch
  double* partial = nullptr;
  bool split = !tf32_is_allowed();

  KOKKOS_FUNCTION int taps() const { return shape.kernel[0] * shape.kernel[1]; }
  KOKKOS_FUNCTION int channels() const { return groups.count * groups.outputs; }
  KOKKOS_FUNCTION index_t weights() const { return index_t{channels()} * groups.inputs * taps(); }
  KOKKOS_FUNCTION index_t partial_size() const { return weights() + channels(); }

  void launch(const ExecutionSpace& space, const char* label) const {
    if constexpr (device::runs_on<ExecutionSpace>)
      device::launch_correlation(space, label, *this);
    else
      launch_tiles(space, label, last_block - first_block, *this, host_bytes(), 0);
  }

  KOKKOS_FORCEINLINE_FUNCTION device::WindowedCorrelation<S, Points, Windowed> device_part() const {
    return {points, window, groups, shape, tiling, blocks, partial, split};
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const { run_on_host(team); }

 private:
  static constexpr index_t rows_at_once = detail::correlated_rows;

  /// The windowed operand, beginning with a group's first channel.
  struct GroupOf {
    const Windowed& reader;
    int first_channel = 0;
    void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
      reader.load_row(n, first_channel + c, y, x0, count, out);
    }
  };
  using Ring = WindowRows<T, GroupOf>;

  Ring rows(const GroupOf& group) const { return {group, shape, groups.inputs, tiling.tile_columns, rows_at_once}; }
  index_t padded_columns() const { return ceil_div(tiling.tile_columns, lanes<T>) * lanes<T>; }
  std::size_t points_size() const { return static_cast<std::size_t>(rows_at_once * padded_columns()); }
  std::size_t host_bytes() const { return rows({window}).bytes() + Scratch::bytes_of<T>(points_size()); }

  void run_on_host(const Team& team) const {
    GroupOf group{window};
    Ring ring = rows(group);
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* lines = scratch.take<T>(points_size());
    std::fill_n(lines, points_size(), T(0));
    const int block = first_block + team.league_rank();
    double* result = partial + block * partial_size();
    std::fill_n(result, partial_size(), 0.0);
    const Interval tiles = tiling.of_block(block, blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (int g = 0; g < groups.count; ++g) {
        group.first_channel = g * groups.inputs;
        Scratch again = scratch;
        ring.begin(again, tile.sample, tile.columns);
        for (index_t y = tile.rows.begin; y < tile.rows.end; y += rows_at_once)
          add_rows(ring, lines, tile, g, {y, std::min(y + rows_at_once, tile.rows.end)}, result);
      }
    }
  }

  void add_rows(Ring& ring, T* lines, const Tile& tile, int g, const Interval& rows, double* result) const {
    const index_t columns = tile.columns.size(), padded = ceil_div(columns, lanes<T>) * lanes<T>;
    for (index_t y = rows.begin; y < rows.end; ++y) ring.advance_to(y);
    for (int o = g * groups.outputs; o < (g + 1) * groups.outputs; ++o) {
      const T* line[rows_at_once];
      for (index_t r = 0; r < rows.size(); ++r) {
        T* to = lines + r * padded_columns();
        points.load_row(tile.sample, o, rows.begin + r, tile.columns.begin, columns, to);
        std::fill(to + columns, to + padded, T(0));
        result[weights() + o] += detail::sum_of_row(to, columns);
        line[r] = to;
      }
      for (int c = 0; c < groups.inputs; ++c) {
        double* to = result + (index_t{o} * groups.inputs + c) * taps();
        int k = 0;
        while (taps() - k >= detail::correlated_taps)
          k += correlate<detail::correlated_taps>(ring, c, rows, k, line, columns, to);
        while (taps() - k >= 3) k += correlate<3>(ring, c, rows, k, line, columns, to);
        while (taps() > k) k += correlate<1>(ring, c, rows, k, line, columns, to);
      }
    }
  }

  /// Sums taps [k, k + Taps) of channel c. Returns how many they are.
  template <int Taps>
  int correlate(const Ring& ring, int c, const Interval& rows, int k, const T* const* line, index_t columns,
                double* to) const {
    const T* in[rows_at_once * Taps];
    for (index_t r = 0; r < rows.size(); ++r)
      for (int i = 0; i < Taps; ++i)
        in[r * Taps + i] = ring.row(c, rows.begin + r, (k + i) / shape.kernel[1]) + ring.tap((k + i) % shape.kernel[1]);
    T sums[Taps];
    detail::correlate_taps<T, Taps>(line, in, static_cast<int>(rows.size()), columns, sums);
    if (!detail::all_finite(sums, Taps))
      correlate_counted<Taps>(line, in, static_cast<int>(rows.size()), columns, sums);
    for (int i = 0; i < Taps; ++i) to[k + i] += static_cast<double>(sums[i]);
    return Taps;
  }

  /// The same as detail::correlate_taps without points whose gradient is 0.
  template <int Taps>
  static void correlate_counted(const T* const* line, const T* const* in, int rows, index_t columns, T* sums) {
    static_assert(reads_gradient<Points> != reads_gradient<Windowed>);
    for (int k = 0; k < Taps; ++k) {
      sums[k] = 0;
      for (int r = 0; r < rows; ++r)
        sums[k] += reads_gradient<Points> ? detail::sum_counted(line[r], in[r * Taps + k], columns)
                                          : detail::sum_counted(in[r * Taps + k], line[r], columns);
    }
  }
};

}  // namespace halogen::kernels
