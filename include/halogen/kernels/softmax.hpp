// Softmax over the channels of each point, and its adjoint. output = or += as `accumulate` says.
// Accumulation: sums over channels in their order, in the value type; the largest channel is subtracted first.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// y[c] = exp(x[c] - max) / sum of exp(x - max).
template <class T>
struct SoftmaxPoint {
  ValueReader<T> input;
  int channels = 0, first = 0, outputs = 0;  ///< first, outputs: which of them are computed

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
      for (index_t i = 0; i < count; ++i) sum[i] += x[c * pitch + i] = Kokkos::exp(x[c * pitch + i] - largest[i]);
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

/// dx[c] = y[c] (g[c] - sum of g y), for channels [first, first + outputs).
template <class T>
struct SoftmaxBackwardPoint {
  GradientReader<T> gradient;
  TensorView<T> result;  ///< y
  int channels = 0, first = 0, outputs = 0;

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
    for (int c = 0; c < channels; ++c) sum += gradient.at(n, c, y, x) * result.at(n, c, y, x);
    return result.at(n, first + o, y, x) * (gradient.at(n, first + o, y, x) - sum);
  }
};

/// Drives a computation over all channels of a point: pieces of rows, all channels in scratch.
template <class ExecutionSpace, class T, class Point>
struct PointKernel {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Point point;
  TensorView<T> output;
  Tiling tiling;
  bool accumulate = false;
  TensorView<T> base;  ///< accumulate: what is added to, the output itself or another tensor
  RowEpilogue<T> epilogue;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, tiling.launched(), *this, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    KOKKOS_IF_ON_HOST((run_on_host(team);))
    KOKKOS_IF_ON_DEVICE((run_on_device(team);))
  }

 private:
  static constexpr index_t piece = 128;
  std::size_t values() const { return static_cast<std::size_t>(point.channels * piece); }
  std::size_t host_bytes() const {
    return Point::operands * Scratch::bytes_of<T>(values()) + Scratch::bytes_of<T>(2 * piece) +
           Scratch::bytes_of<RowSums>(static_cast<std::size_t>(point.outputs));
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* rows = scratch.take<T>(values());
    T* second = Point::operands == 2 ? scratch.take<T>(values()) : nullptr;
    T* sums_of_points = scratch.take<T>(2 * piece);
    RowSums* sums = scratch.take<RowSums>(static_cast<std::size_t>(point.outputs));
    std::fill_n(sums, point.outputs, RowSums{});
    const Tile tile(tiling, tiling.number(team.league_rank()));
    const int n = tile.sample;
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      for (index_t x = tile.columns.begin; x < tile.columns.end; x += piece) {
        const index_t count = std::min(piece, tile.columns.end - x);
        for (int c = 0; c < point.channels; ++c)
          point.load(n, c, y, x, count, rows + c * piece, second == nullptr ? nullptr : second + c * piece);
        point.compute(rows, second, sums_of_points, piece, count);
        for (int o = 0; o < point.outputs; ++o) put(rows + (point.first + o) * piece, n, o, y, x, count);
      }
      if (epilogue.kind == RowEpilogue<T>::Kind::none) continue;
      for (int o = 0; o < point.outputs; ++o)
        epilogue.add_row(n, o, y, tile.columns.begin, tile.columns.size(), &output.at(n, o, y, tile.columns.begin),
                         sums[o]);
    }
    if (epilogue.kind != RowEpilogue<T>::Kind::none)
      for (int o = 0; o < point.outputs; ++o)
        epilogue.partial[tiling.number(team.league_rank()) * point.outputs + o] = sums[o];
  }

  void put(const T* from, int n, int o, index_t y, index_t x, index_t count) const {
    T* to = &output.at(n, o, y, x);
    if (!accumulate) return detail::copy_row(from, count, to);
    const T* on = &base.at(n, o, y, x);
    for_each_vector<T>(
        count, [&]<class V>(index_t i) { store<V>(to + i, kernels::load<V>(on + i) + kernels::load<V>(from + i)); });
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const Tile tile(tiling, tiling.number(team.league_rank()));
    const int rows = static_cast<int>(tile.rows.size()), columns = static_cast<int>(tile.columns.size());
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, point.outputs * rows * columns), [&](const int i) {
      const int o = i / (rows * columns);
      const index_t y = tile.rows.begin + i / columns % rows, x = tile.columns.begin + i % columns;
      const T value = point.at(tile.sample, o, y, x);
      output.at(tile.sample, o, y, x) = accumulate ? base.at(tile.sample, o, y, x) + value : value;
    });
    if (epilogue.kind == RowEpilogue<T>::Kind::none) return;
    team.team_barrier();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, point.outputs), [&](const int o) {
      RowSums sums;
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
        epilogue.add_row(tile.sample, o, y, tile.columns.begin, columns,
                         &output.at(tile.sample, o, y, tile.columns.begin), sums);
      epilogue.partial[tiling.number(team.league_rank()) * point.outputs + o] = sums;
    });
  }
};

}  // namespace halogen::kernels
