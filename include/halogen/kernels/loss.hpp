// Losses of a prediction and a label, weighted: sum of w * loss(p, y) / sum of w, and their gradient.
#pragma once

#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// (p - y)^2 and its derivative by p.
struct SquaredError {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return (p - y) * (p - y);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    return T(2) * (p - y);
  }
};

/// Sum of the weights of a tile's points, in double. One team a tile.
template <class ExecutionSpace, class T>
struct WeightSum {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  TensorView<T> weight;
  Tiling tiling;
  double* partial;  ///< [tile]

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile(tiling, team.league_rank());
    double sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, static_cast<int>(tile.rows.size())),
        [&](const int i, double& rows) {
          const T* row = &weight.at(tile.sample, 0, tile.rows.begin + i, tile.columns.begin);
          for (index_t x = 0; x < tile.columns.size(); ++x) rows += static_cast<double>(row[x]);
        },
        sum);
    Kokkos::single(Kokkos::PerTeam(team), [&] { partial[team.league_rank()] = sum; });
  }
};

/// Sum of w * loss over a tile in double, and gradient = scale * w * loss'. weight.data null: 1 everywhere.
template <class ExecutionSpace, class T, class Loss>
struct LossRows {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  TensorView<T> prediction, label, weight, gradient;
  int channels;
  Tiling tiling;
  double scale;     ///< 1 / (sum of weights * channels), over all ranks
  double* partial;  ///< [tile]

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile(tiling, team.league_rank());
    const int rows = static_cast<int>(tile.rows.size());
    double sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, channels * rows),
        [&](const int i, double& total) { total += row(tile, i / rows, tile.rows.begin + i % rows); }, sum);
    Kokkos::single(Kokkos::PerTeam(team), [&] { partial[team.league_rank()] = sum; });
  }

  KOKKOS_FUNCTION double row(const Tile& tile, int c, index_t y) const {
    const int n = tile.sample;
    const index_t x0 = tile.columns.begin;
    const T* p = &prediction.at(n, c, y, x0);
    const T* l = &label.at(n, c, y, x0);
    const T* w = weight.data == nullptr ? nullptr : &weight.at(n, 0, y, x0);
    T* g = &gradient.at(n, c, y, x0);
    double total = 0;
    for (index_t x = 0; x < tile.columns.size(); ++x) {
      const double weight_here = w == nullptr ? 1.0 : static_cast<double>(w[x]);
      total += weight_here * static_cast<double>(Loss::value(p[x], l[x]));
      g[x] = static_cast<T>(scale * weight_here) * Loss::slope(p[x], l[x]);
    }
    return total;
  }
};

/// result[0] = sum of partial[0, count), in order. One work item.
struct SumInOrder {
  const double* partial;
  index_t count;
  double* result;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    double sum = 0;
    for (index_t i = 0; i < count; ++i) sum += partial[i];
    result[0] = sum;
  }
};

}  // namespace halogen::kernels
