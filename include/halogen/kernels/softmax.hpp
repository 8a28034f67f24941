// Softmax over the channels of each point, and its adjoint.
// Accumulation: sums over channels in their order, in the value type; the largest channel is subtracted first.
#pragma once

#include <algorithm>

#include "halogen/kernels/device/tile_output.hpp"
#include "halogen/kernels/exponential.hpp"

namespace halogen::kernels {

/// y[c] = exp(x[c] - max) / sum of exp(x - max).
template <class S>
struct SoftmaxPoint {
  using T = compute_type<S>;
  ValueReader<S> input;
  int channels = 0, first = 0;  ///< first: that is computed

  static constexpr int operands = 1;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T*) const {
    input.load_row(n, c, y, x0, count, to);
  }

  /// Host: columns [0, count) of rows `pitch` apart, in place.
  void compute(T* x, T*, T* sum, index_t pitch, index_t count) const {
    T* largest = sum + pitch;
    std::copy_n(x, count, largest);
    for (int c = 1; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], x[c * pitch + i]);
    std::fill_n(sum, count, T(0));
    for (int c = 0; c < channels; ++c)
      for_each_vector<T>(count, [&]<class V>(index_t i) {
        const V one = exponential<T>(kernels::load<V>(x + c * pitch + i) - kernels::load<V>(largest + i));
        kernels::store(x + c * pitch + i, one);
        kernels::store(sum + i, kernels::load<V>(sum + i) + one);
      });
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) x[c * pitch + i] /= sum[i];
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    T largest = input.at(n, 0, y, x), sum = 0;
    for (int c = 1; c < channels; ++c) {
      const T value = input.at(n, c, y, x);
      largest = largest < value ? value : largest;
    }
    for (int c = 0; c < channels; ++c) sum += Kokkos::exp(input.at(n, c, y, x) - largest);
    return Kokkos::exp(input.at(n, first + o, y, x) - largest) / sum;
  }
};

/// dx[c] = y[c] (g[c] - sum of g y), for channels from `first` on.
template <class S>
struct SoftmaxBackwardPoint {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  TensorView<S> result;  ///< y
  int channels = 0, first = 0;

  static constexpr int operands = 2;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T* second) const {
    gradient.load_row(n, c, y, x0, count, to);
    detail::copy_row(&result.at(n, c, y, x0), count, second);
  }

  void compute(T* g, T* y, T* sum, index_t pitch, index_t count) const {
    std::fill_n(sum, count, T(0));
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) sum[i] += g[c * pitch + i] * y[c * pitch + i];
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) g[c * pitch + i] = y[c * pitch + i] * (g[c * pitch + i] - sum[i]);
  }

  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    T sum = 0;
    for (int c = 0; c < channels; ++c) sum += gradient.at(n, c, y, x) * T(result.at(n, c, y, x));
    return T(result.at(n, first + o, y, x)) * (gradient.at(n, first + o, y, x) - sum);
  }
};

/// Drives a computation over all channels of a point: pieces of rows, all channels in scratch.
template <class ExecutionSpace, class S, class Point>
struct PointKernel {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Point point;
  TileOutput<S> output;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.launched(), *this, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    device::run_points(team, output, output.number(team),
                       [&](int n, int c, index_t y, index_t x) { return point.at(n, c, y, x); });
  }

  static constexpr index_t piece = 128;
  std::size_t values() const { return static_cast<std::size_t>(point.channels * piece); }
  std::size_t outputs() const { return static_cast<std::size_t>(output.channels); }
  std::size_t host_bytes() const {
    return Point::operands * Scratch::bytes_of<T>(values()) + Scratch::bytes_of<T>(2 * piece) +
           Scratch::bytes_of<RowSums>(outputs());
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* rows = scratch.take<T>(values());
    T* second = Point::operands == 2 ? scratch.take<T>(values()) : nullptr;
    T* sums_of_points = scratch.take<T>(2 * piece);
    RowSums* sums = scratch.take<RowSums>(outputs());
    std::fill_n(sums, output.channels, RowSums{});
    const Tile tile = output.tile(team);
    const int n = tile.sample;
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      for (index_t x = tile.columns.begin; x < tile.columns.end; x += piece) {
        const index_t count = std::min(piece, tile.columns.end - x);
        for (int c = 0; c < point.channels; ++c)
          point.load(n, c, y, x, count, rows + c * piece, second == nullptr ? nullptr : second + c * piece);
        point.compute(rows, second, sums_of_points, piece, count);
        for (int o = 0; o < output.channels; ++o) output.put_row(n, o, y, x, count, rows + (point.first + o) * piece);
      }
      for (int o = 0; o < output.channels; ++o) output.sum_row(n, o, y, tile.columns, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }
};

}  // namespace halogen::kernels
