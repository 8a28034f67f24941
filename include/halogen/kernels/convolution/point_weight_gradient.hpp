// Host: gradient of the weights and bias of a kernel of one point with many channels. It is a product of matrices: the
// points of the output's gradient, transposed, times the points of the input.
// A point whose gradient is 0 adds nothing, as in weight_gradient.hpp. Sums are in the value type over at most `chunk`
// points and in double across these, tiles and blocks. Their order is fixed and does not depend on the number of
// threads.
#pragma once

#include "halogen/kernels/convolution/weight_gradient.hpp"
#include "halogen/kernels/tiles/point_rows.hpp"
#include "halogen/kernels/vector/shuffle.hpp"

namespace halogen::kernels {
namespace detail {

template <class T>
inline constexpr int gradient_outputs = gradient_block < wide_lanes<T> ? gradient_block : wide_lanes<T>;

/// Sums over `points` of gradient_outputs outputs times Vectors wide vectors of input channels. Both are [point][lane].
template <class T, int Vectors>
[[gnu::noinline]] void sum_outer_products(const T* gradients, const T* const* channels /* [Vectors] */, index_t points,
                                          T* sums /* [gradient_outputs][Vectors * wide_lanes] */) {
  constexpr int wide = wide_lanes<T>, outputs = gradient_outputs<T>;
  using V = Vector<T, wide>;
  V sum[outputs][Vectors];
  HALOGEN_UNROLL
  for (int o = 0; o < outputs; ++o) HALOGEN_UNROLL
  for (int v = 0; v < Vectors; ++v) sum[o][v] = V{};
  const T* in[Vectors];
  HALOGEN_UNROLL
  for (int v = 0; v < Vectors; ++v) in[v] = channels[v];
  for (index_t p = 0; p < points; ++p, gradients += wide) {
    V x[Vectors];
    HALOGEN_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      x[v] = load<V>(in[v]);
      in[v] += wide;
    }
    HALOGEN_UNROLL
    for (int o = 0; o < outputs; ++o) {
      const T g = gradients[o];
      HALOGEN_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[o][v] += x[v] * g;
    }
  }
  HALOGEN_UNROLL
  for (int o = 0; o < outputs; ++o) HALOGEN_UNROLL
  for (int v = 0; v < Vectors; ++v) store<V>(sums + (o * Vectors + v) * wide, sum[o][v]);
}

/// The same without points whose gradient is 0.
template <class T, int Vectors>
[[gnu::noinline]] void sum_counted_products(const T* gradients, const T* const* channels, index_t points, T* sums) {
  constexpr int wide = wide_lanes<T>, outputs = gradient_outputs<T>;
  std::fill_n(sums, outputs * Vectors * wide, T(0));
  for (index_t p = 0; p < points; ++p)
    for (int o = 0; o < outputs; ++o) {
      const T g = gradients[p * wide + o];
      for (int c = 0; g != T(0) && c < Vectors * wide; ++c)
        sums[o * Vectors * wide + c] += channels[c / wide][p * wide + c % wide] * g;
    }
}

}  // namespace detail

/// Partial results [block][outputs * inputs + outputs] in double, as those of WeightGradient.
template <class ExecutionSpace, class S, class Input = ValueReader<S>>
struct PointWeightGradient {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Input input;
  GradientReader<S> gradient;
  int inputs = 0, outputs = 0;
  PlaneWindow shape;                                ///< a kernel of 1 x 1, any stride and padding
  Tiling tiling;                                    ///< of the output
  int blocks = 1, first_block = 0, last_block = 1;  ///< all blocks, and those to launch
  double* partial = nullptr;

  /// With fewer inputs than a vector has lanes, lanes would be empty: WeightGradient is faster.
  static bool serves(int inputs) { return inputs >= wide; }

  index_t partial_size() const { return index_t{outputs} * inputs + outputs; }

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, last_block - first_block, *this, host_bytes(), 0);
  }

  static constexpr bool host_alone = true;
  void operator()(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    PointRows<T, Input> values(input, shape, tiling.tile_columns);
    values.take(scratch);
    T* const lines = scratch.take<T>(lines_size());
    T* const x = scratch.take<T>(panels_size(inputs));
    T* const g = scratch.take<T>(panels_size(outputs));
    double* const result = partial + (first_block + team.league_rank()) * partial_size();
    double* const of_bias = result + index_t{outputs} * inputs;
    std::fill_n(of_bias, outputs, 0.0);
    const PlaneWindow own;
    const PointRows<T, GradientReader<S>> gradients(gradient, own, tiling.tile_columns);
    const Interval tiles = tiling.of_block(first_block + team.league_rank(), blocks);
    const index_t at_once = rows_at_once();
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (index_t y = tile.rows.begin; y < tile.rows.end; y += at_once) {
        const Interval strip = {y, std::min(y + at_once, tile.rows.end)};
        const index_t count = strip.size() * tile.columns.size();
        fill_panels(values, inputs, tile, strip, lines, x, [](int, const T*) {});
        fill_panels(gradients, outputs, tile, strip, lines, g,
                    [&](int o, const T* line) { of_bias[o] += detail::sum_of_row(line, count); });
        add_products(g, x, count, t == tiles.begin && y == tile.rows.begin, result);
      }
    }
  }

 private:
  static constexpr int wide = wide_lanes<T>;
  static constexpr index_t chunk = 256;
  static constexpr int most = 3;  ///< vectors of input channels that are summed at once

  index_t rows_at_once() const { return strip_rows(tiling, inputs + outputs, sizeof(T)); }
  index_t padded_points() const { return ceil_div(rows_at_once() * tiling.tile_columns, wide) * wide; }
  index_t panel() const { return padded_points() * wide; }
  index_t line_pitch() const { return padded_points() + wide; }
  std::size_t lines_size() const { return static_cast<std::size_t>(wide * line_pitch()); }
  std::size_t panels_size(int channels) const { return static_cast<std::size_t>(ceil_div(channels, wide) * panel()); }
  std::size_t host_bytes() const {
    return PointRows<T, Input>(input, shape, tiling.tile_columns).bytes() + Scratch::bytes_of<T>(lines_size()) +
           Scratch::bytes_of<T>(panels_size(inputs)) + Scratch::bytes_of<T>(panels_size(outputs));
  }

  /// Panels [vector of channels][point][lane] of a strip. Lanes that have no channel are 0. Calls visit(channel, line)
  /// for each channel with its points in a row.
  template <class Rows, class Visit>
  void fill_panels(const Rows& rows, int channels, const Tile& tile, const Interval& strip, T* lines, T* panels,
                   Visit visit) const {
    for (int c = 0; c < channels; c += wide, panels += panel()) {
      const T* rows_of[wide];
      for (int l = 0; l < wide; ++l) {
        T* const line = lines + l * line_pitch();
        rows_of[l] = line;
        if (c + l >= channels) {
          std::memset(line, 0, static_cast<std::size_t>(line_pitch()) * sizeof(T));
          continue;
        }
        rows.load(tile.sample, c + l, strip, tile.columns, line);
        visit(c + l, line);
      }
      transpose_lines(rows_of, 0, strip.size() * tile.columns.size(), panels);
    }
  }

  /// Adds the products of a strip to the result, or stores them if it is the first.
  void add_products(const T* g, const T* x, index_t count, bool first, double* result) const {
    const int vectors = static_cast<int>(ceil_div(inputs, wide));
    for (int v = 0; v < vectors; v += most)
      for (index_t p = 0; p < count; p += chunk) {
        const index_t points = std::min(chunk, count - p);
        const bool stores = first && p == 0;
        const T* const from = x + v * panel() + p * wide;
        if (vectors - v >= 3)
          add_vectors<3>(g + p * wide, from, points, v, stores, result);
        else if (vectors - v == 2)
          add_vectors<2>(g + p * wide, from, points, v, stores, result);
        else
          add_vectors<1>(g + p * wide, from, points, v, stores, result);
      }
  }

  /// The sums of these points for all outputs and the channels of Vectors vectors from v on.
  template <int Vectors>
  void add_vectors(const T* g, const T* x, index_t points, int v, bool stores, double* result) const {
    constexpr int at_once = detail::gradient_outputs<T>;
    const T* channels[Vectors];
    for (int i = 0; i < Vectors; ++i) channels[i] = x + i * panel();
    const index_t first = v * wide, count = std::min<index_t>(Vectors * wide, inputs - first);
    T sums[at_once * Vectors * wide];
    for (int o = 0; o < outputs; o += at_once) {
      const T* const from = g + o / wide * panel() + o % wide;
      detail::sum_outer_products<T, Vectors>(from, channels, points, sums);
      if (!detail::all_finite(sums, at_once * Vectors * wide))
        detail::sum_counted_products<T, Vectors>(from, channels, points, sums);
      for (int i = 0; i < at_once && o + i < outputs; ++i)
        add_to_doubles(sums + i * Vectors * wide, count, stores, result + index_t{o + i} * inputs + first);
    }
  }

  static void add_to_doubles(const T* from, index_t count, bool stores, double* to) {
    for_each_vector<T>(count, [&]<class V>(index_t i) {
      if constexpr (std::is_same_v<V, T>) {
        to[i] = (stores ? 0.0 : to[i]) + static_cast<double>(from[i]);
      } else {
        const auto wider = widen<T>(load<V>(from + i));
        using D = std::decay_t<decltype(wider)>;
        store(to + i, stores ? wider : load<D>(to + i) + wider);
      }
    });
  }
};

}  // namespace halogen::kernels
