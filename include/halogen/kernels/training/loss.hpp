// Losses of a prediction and a label, weighted: sum of w * loss(p, y) / sum of w, and their gradient. A point of weight
// 0 does not count: its loss and gradient are 0 even if its prediction or its label is NaN.
#pragma once

#include "halogen/kernels/sums/merge.hpp"
#include "halogen/kernels/training/point_losses.hpp"

namespace halogen::kernels {

/// Whether a loss is computed for each channel, by `value` and `slope`, or for all channels of a point, by `point`.
template <class Loss, class T>
concept LossOfChannel = requires(const Loss& loss, T x) { loss.slope(x, x); };
/// How many numbers of a point count in the mean: the channels, or one.
template <class Loss, class T>
int counted_of(const Loss& loss, int channels) {
  if constexpr (requires { loss.counted(channels); })
    return loss.counted(channels);
  else
    return LossOfChannel<Loss, T> ? channels : 1;
}
/// Whether labels have different weights.
template <class Loss, class L>
concept WeighsLabels = requires(const Loss& loss, L label) { loss.weight(label, 1); };

/// Sum over a tile's points of the weight, times the weight of the label if the loss has one, in double. If weight.data
/// is null, weights are 1. One team for each tile.
template <class ExecutionSpace, class Loss, class L, class W>
struct WeightSum {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  Loss loss;
  TensorView<L> label;
  TensorView<W> weight;
  int channels;  ///< of the prediction
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
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
      for (index_t x = tile.columns.begin; x < tile.columns.end; ++x) sum += at(tile.sample, y, x);
    return sum;
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team, const Tile& tile) const {
    const index_t columns = tile.columns.size();
    const RowSums sums =
        device::sum(team, device::reduce_scratch(team), tile.rows.size() * columns, [&](index_t i, RowSums& own) {
          own.first += at(tile.sample, tile.rows.begin + i / columns, tile.columns.begin + i % columns);
        });
    if (device::is_first_thread(team)) partial[team.league_rank()] = sums.first;
  }

  KOKKOS_FUNCTION double at(int n, index_t y, index_t x) const {
    const double weight_here = weight.data == nullptr ? 1.0 : static_cast<double>(weight.at(n, 0, y, x));
    if constexpr (WeighsLabels<Loss, L>)
      return weight_here == 0 ? 0 : weight_here * loss.weight(label.at(n, 0, y, x), channels);
    else
      return weight_here;
  }
};

/// Sum of w * loss over a tile, in double, and gradient = scale * w * loss'. If weight.data is null, weights are 1.
/// Prediction and gradient are stored as S, label as L, weight as W. Points are computed in compute_type<S>.
template <class ExecutionSpace, class S, class Loss, class L = S, class W = S>
struct LossRows {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  static constexpr bool of_channel = LossOfChannel<Loss, T>;
  Loss loss;
  TensorView<S> prediction;
  TensorView<L> label;
  TensorView<W> weight;
  TensorView<S> gradient;
  int channels;
  Tiling tiling;
  double factor, divisor;    ///< the loss is multiplied by factor and divided by divisor
  const double* weight_sum;  ///< over all ranks; with weights the loss is also divided by it, else null
  double* partial;           ///< [tile]

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Tile tile(tiling, team.league_rank());
    HALOGEN_HOST_PART(partial[team.league_rank()] = run_on_host(tile);)
    HALOGEN_DEVICE_PART(run_on_device(team, tile);)
  }

 private:
  KOKKOS_FUNCTION double scale() const { return factor / (weight_sum == nullptr ? divisor : *weight_sum * divisor); }

  KOKKOS_FUNCTION void run_on_device(const Team& team, const Tile& tile) const {
    const index_t columns = tile.columns.size(), points = tile.rows.size() * columns;
    const double scale = this->scale();
    const index_t items = of_channel ? channels * points : points;
    const RowSums sums = device::sum(team, device::reduce_scratch(team), items, [&](index_t i, RowSums& own) {
      const index_t y = tile.rows.begin + i % points / columns, x = tile.columns.begin + i % columns;
      if constexpr (of_channel)
        own.first += channel(tile.sample, static_cast<int>(i / points), y, x, scale);
      else
        own.first += point(tile.sample, y, x, scale);
    });
    if (device::is_first_thread(team)) partial[team.league_rank()] = sums.first;
  }

  KOKKOS_FUNCTION double weight_at(int n, index_t y, index_t x) const {
    return weight.data == nullptr ? 1.0 : static_cast<double>(weight.at(n, 0, y, x));
  }

  /// Writes the gradient of one channel of a point. Returns its share of the loss.
  KOKKOS_FUNCTION double channel(int n, int c, index_t y, index_t x, double scale) const {
    const T p = prediction.at(n, c, y, x), l = static_cast<T>(label.at(n, c, y, x));
    const double weight_here = weight_at(n, y, x);
    if (weight_here == 0) {
      gradient.at(n, c, y, x) = S(T(0));
      return 0;
    }
    gradient.at(n, c, y, x) = static_cast<S>(static_cast<T>(scale * weight_here) * loss.slope(p, l));
    return weight_here * static_cast<double>(loss.value(p, l));
  }

  /// The same for all channels of a point.
  KOKKOS_FUNCTION double point(int n, index_t y, index_t x, double scale) const {
    const double weight_here = weight_at(n, y, x);
    const ChannelsAt<const S> p{&prediction.at(n, 0, y, x), prediction.channel_stride};
    const ChannelsAt<const L> l{&label.at(n, 0, y, x), label.channel_stride};
    const ChannelsAt<S> g{&gradient.at(n, 0, y, x), gradient.channel_stride};
    if (weight_here == 0) {
      for (int c = 0; c < channels; ++c) g.put(c, T(0));
      return 0;
    }
    return weight_here * loss.point(channels, p, l, static_cast<T>(scale * weight_here), g);
  }

  double run_on_host(const Tile& tile) const {
    const double scale = this->scale();
    double total = 0;
    if constexpr (of_channel) {
      for (int c = 0; c < channels; ++c)
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) total += row(tile, c, y, scale);
    } else {
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
        for (index_t x = tile.columns.begin; x < tile.columns.end; ++x) total += point(tile.sample, y, x, scale);
    }
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
      const bool counts = weight_here != 0;
      total += counts ? weight_here * static_cast<double>(loss.value(predicted, wanted)) : 0.0;
      g[x] = static_cast<S>(counts ? static_cast<T>(scale * weight_here) * loss.slope(predicted, wanted) : T(0));
    }
    return total;
  }
};

/// result[0] = the least of the numbers that count, or NaN if one of these is NaN. One work item.
struct LeastOf {
  const double* numbers;
  bool counts[most_outputs];
  int size;
  double* result;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    double least = 0;
    bool any = false;
    for (int i = 0; i < size; ++i) {
      if (!counts[i] || (any && numbers[i] >= least)) continue;
      least = numbers[i];
      any = true;
    }
    result[0] = least;
  }
};

}  // namespace halogen::kernels
