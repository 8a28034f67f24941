// Losses of a prediction and a label, weighted: sum of w * loss(p, y) / sum of w, and their gradient.
#pragma once

#include "halogen/kernels/device/reduce.hpp"
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

/// |p - y|; the derivative where they are equal is 0, as PyTorch's.
struct AbsoluteError {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return Kokkos::abs(p - y);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    return static_cast<T>(p > y) - static_cast<T>(p < y);
  }
};

/// (p - y)^2 / 2 where |p - y| < 1, else |p - y| - 1/2.
struct HuberError {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    const T d = Kokkos::abs(p - y);
    return d < T(1) ? d * d / T(2) : d - T(0.5);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    const T d = p - y;
    return d > T(1) ? T(1) : d < T(-1) ? T(-1) : d;
  }
};

/// -y log(s) - (1 - y) log(1 - s) with s = 1 / (1 + e^-p), which neither overflows nor loses small s.
struct CrossEntropyOfLogit {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return (p > T(0) ? p : T(0)) - p * y + Kokkos::log1p(Kokkos::exp(-Kokkos::abs(p)));
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    return T(1) / (T(1) + Kokkos::exp(-p)) - y;
  }
};

/// Sum of the weights of a tile's points, in double. One team a tile.
template <class ExecutionSpace, class W>
struct WeightSum {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  TensorView<W> weight;
  Tiling tiling;
  double* partial;  ///< [tile]

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile(tiling, team.league_rank());
    HALOGEN_HOST_PART(partial[team.league_rank()] = run_on_host(tile);)
    HALOGEN_DEVICE_PART(run_on_device(team, tile);)
  }

 private:
  double run_on_host(const Tile& tile) const {
    double sum = 0;
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      const W* row = &weight.at(tile.sample, 0, y, tile.columns.begin);
      for (index_t x = 0; x < tile.columns.size(); ++x) sum += static_cast<double>(row[x]);
    }
    return sum;
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team, const Tile& tile) const {
    const index_t columns = tile.columns.size();
    const RowSums sums =
        device::sum(team, device::reduce_scratch(team), tile.rows.size() * columns, [&](index_t i, RowSums& own) {
          own.first += static_cast<double>(
              weight.at(tile.sample, 0, tile.rows.begin + i / columns, tile.columns.begin + i % columns));
        });
    if (device::is_first_thread(team)) partial[team.league_rank()] = sums.first;
  }
};

/// Sum of w * loss over a tile in double, and gradient = scale * w * loss'. weight.data null: 1 everywhere. Prediction
/// and gradient are stored as S, label and weight as L and W; points are computed in compute_type<S>.
template <class ExecutionSpace, class S, class Loss, class L = S, class W = S>
struct LossRows {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  TensorView<S> prediction;
  TensorView<L> label;
  TensorView<W> weight;
  TensorView<S> gradient;
  int channels;
  Tiling tiling;
  double divisor;            ///< points and channels over all ranks, or the factor of
  const double* weight_sum;  ///< over all ranks, where there are weights
  double* partial;           ///< [tile]

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile(tiling, team.league_rank());
    HALOGEN_HOST_PART(partial[team.league_rank()] = run_on_host(tile);)
    HALOGEN_DEVICE_PART(run_on_device(team, tile);)
  }

 private:
  KOKKOS_FUNCTION double scale() const { return 1.0 / (weight_sum == nullptr ? divisor : *weight_sum * divisor); }

  KOKKOS_FUNCTION void run_on_device(const Team& team, const Tile& tile) const {
    const index_t columns = tile.columns.size(), points = tile.rows.size() * columns;
    const double scale = this->scale();
    const RowSums sums =
        device::sum(team, device::reduce_scratch(team), channels * points, [&](index_t i, RowSums& own) {
          const int c = static_cast<int>(i / points);
          own.first +=
              point(tile.sample, c, tile.rows.begin + i % points / columns, tile.columns.begin + i % columns, scale);
        });
    if (device::is_first_thread(team)) partial[team.league_rank()] = sums.first;
  }

  /// Writes one point's gradient; its share of the loss.
  KOKKOS_FUNCTION double point(int n, int c, index_t y, index_t x, double scale) const {
    const T p = prediction.at(n, c, y, x), l = label.at(n, c, y, x);
    const double weight_here = weight.data == nullptr ? 1.0 : static_cast<double>(weight.at(n, 0, y, x));
    gradient.at(n, c, y, x) = static_cast<S>(static_cast<T>(scale * weight_here) * Loss::slope(p, l));
    return weight_here * static_cast<double>(Loss::value(p, l));
  }

  double run_on_host(const Tile& tile) const {
    const double scale = this->scale();
    double total = 0;
    for (int c = 0; c < channels; ++c)
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) total += row(tile, c, y, scale);
    return total;
  }

  double row(const Tile& tile, int c, index_t y, double scale) const {
    const int n = tile.sample;
    const index_t x0 = tile.columns.begin;
    const S* p = &prediction.at(n, c, y, x0);
    const L* l = &label.at(n, c, y, x0);
    const W* w = weight.data == nullptr ? nullptr : &weight.at(n, 0, y, x0);
    S* g = &gradient.at(n, c, y, x0);
    double total = 0;
    for (index_t x = 0; x < tile.columns.size(); ++x) {
      const double weight_here = w == nullptr ? 1.0 : static_cast<double>(w[x]);
      const T predicted = p[x], wanted = l[x];
      total += weight_here * static_cast<double>(Loss::value(predicted, wanted));
      g[x] = static_cast<S>(static_cast<T>(scale * weight_here) * Loss::slope(predicted, wanted));
    }
    return total;
  }
};

/// result[0] = sum of partial[0, count), in a fixed order. One team.
template <class ExecutionSpace>
struct SumInOrder {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  const double* partial;
  index_t count;
  double* result;

  void launch(const ExecutionSpace& space) const {
    launch_tiles(space, "halogen::sum", 1, *this, 0, device::reduce_bytes);
  }

  KOKKOS_FUNCTION void operator()([[maybe_unused]] const Team& team) const {
    HALOGEN_HOST_PART(double sum = 0; for (index_t i = 0; i < count; ++i) sum += partial[i]; result[0] = sum;)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const RowSums sums = device::sum(team, device::reduce_scratch(team), count,
                                     [&](index_t i, RowSums& own) { own.first += partial[i]; });
    if (device::is_first_thread(team)) result[0] = sums.first;
  }
};

}  // namespace halogen::kernels
