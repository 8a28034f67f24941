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

/// With d = |p - y|: scale * d^2 / 2 where d < width, else scale * width * (d - width / 2).
struct HuberError {
  double width = 1, scale = 1;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T d = Kokkos::abs(p - y), w = static_cast<T>(width);
    return static_cast<T>(scale) * (d < w ? d * d / T(2) : w * (d - w / T(2)));
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T d = p - y, w = static_cast<T>(width);
    return static_cast<T>(scale) * (d > w ? w : d < -w ? -w : d);
  }
};

/// -k y log(s) - (1 - y) log(1 - s) with s = 1 / (1 + e^-p), k the weight of positives; it neither overflows nor loses
/// small s.
struct CrossEntropyOfLogit {
  double positive_weight = 1;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T k = T(1) + (static_cast<T>(positive_weight) - T(1)) * y;
    return (T(1) - y) * p + k * (Kokkos::log1p(Kokkos::exp(-Kokkos::abs(p))) + (p < T(0) ? -p : T(0)));
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T w = static_cast<T>(positive_weight), k = T(1) + (w - T(1)) * y;
    return k / (T(1) + Kokkos::exp(-p)) - w * y;
  }
};

/// y (log y - p), of a probability y and the logarithm p of another; 0 where y is 0.
struct KullbackLeibler {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return y > T(0) ? y * (Kokkos::log(y) - p) : T(0);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T, T y) {
    return -y;
  }
};

/// q (y - p) where the label is larger, (1 - q) (p - y) where it is smaller: least at the label's q-quantile.
struct PinballError {
  double quantile = 0.5;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T q = static_cast<T>(quantile), d = y - p;
    return d > T(0) ? q * d : (q - T(1)) * d;
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T q = static_cast<T>(quantile);
    return y > p ? -q : y < p ? T(1) - q : T(0);
  }
};

/// The channels of one point of a stored tensor.
template <class S>
struct ChannelsAt {
  S* data;
  index_t stride;
  KOKKOS_FUNCTION S& operator[](int c) const { return data[c * stride]; }
};

/// The logarithm of the sum of e^p over the channels of a point.
template <class T, class P>
KOKKOS_FUNCTION T log_sum_exp(int channels, const P& p) {
  T most = static_cast<T>(p[0]);
  for (int c = 1; c < channels; ++c) most = Kokkos::max(most, static_cast<T>(p[c]));
  T sum = 0;
  for (int c = 0; c < channels; ++c) sum += Kokkos::exp(static_cast<T>(p[c]) - most);
  return most + Kokkos::log(sum);
}

/// Weights of classes; 1 without.
struct ClassWeights {
  const double* weight = nullptr;

  KOKKOS_FUNCTION double of(index_t c) const { return weight == nullptr ? 1.0 : weight[c]; }
  KOKKOS_FUNCTION double sum(int channels) const {
    double sum = channels;
    if (weight != nullptr) {
      sum = 0;
      for (int c = 0; c < channels; ++c) sum += weight[c];
    }
    return sum;
  }
};

/// -(1 - e) w[y] log s[y] - e / C sum of w[c] log s[c], s = softmax(p), of a class y; e smooths the label.
struct CrossEntropyOfClass {
  ClassWeights classes;
  index_t ignored = -100;
  double smoothing = 0;

  /// What a label counts in the mean: nothing where it is ignored. NaN where it is no class.
  KOKKOS_FUNCTION double weight(index_t label, int channels) const {
    if (label == ignored) return 0;
    return label >= 0 && label < channels ? classes.of(label) : Kokkos::Experimental::quiet_NaN_v<double>;
  }
  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const auto label = static_cast<index_t>(y[0]);
    if (label == ignored || !(label >= 0 && label < channels)) {
      for (int c = 0; c < channels; ++c) gradient[c] = static_cast<std::decay_t<decltype(gradient[c])>>(0);
      return 0;
    }
    const T all = log_sum_exp<T>(channels, p), of_label = static_cast<T>((1 - smoothing) * classes.of(label));
    const double each = smoothing / channels;
    const T factor = of_label + static_cast<T>(smoothing > 0 ? each * classes.sum(channels) : 0);
    double loss = static_cast<double>(of_label * (all - static_cast<T>(p[static_cast<int>(label)])));
    for (int c = 0; c < channels; ++c) {
      const T value = static_cast<T>(p[c]);
      T slope = factor * Kokkos::exp(value - all);
      if (c == label) slope -= of_label;
      if (smoothing > 0) {
        const T smoothed = static_cast<T>(each * classes.of(c));
        slope -= smoothed;
        loss += static_cast<double>(smoothed * (all - value));
      }
      gradient[c] = static_cast<std::decay_t<decltype(gradient[c])>>(scale * slope);
    }
    return loss;
  }
};

/// - sum of w[c] y'[c] log s[c], s = softmax(p), of a distribution y over classes; y' = (1 - e) y + e / C.
struct CrossEntropyOfDistribution {
  ClassWeights classes;
  double smoothing = 0;

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const T all = log_sum_exp<T>(channels, p);
    const auto wanted = [&](int c) {
      return static_cast<T>(classes.of(c) * ((1 - smoothing) * static_cast<double>(y[c]) + smoothing / channels));
    };
    T factor = 0;
    for (int c = 0; c < channels; ++c) factor += wanted(c);
    double loss = 0;
    for (int c = 0; c < channels; ++c) {
      const T value = static_cast<T>(p[c]);
      loss += static_cast<double>(wanted(c) * (all - value));
      gradient[c] =
          static_cast<std::decay_t<decltype(gradient[c])>>(scale * (factor * Kokkos::exp(value - all) - wanted(c)));
    }
    return loss;
  }
};

/// Of an ensemble of M members p[m * K + k] and K values y[k], summed over k: mean of |p - y| - sum of |p - p'| over
/// pairs / (2 M^2), or / (2 M (M - 1)) where it is `fair`.
struct RankedProbabilityScore {
  int values = 1;
  bool fair = false;

  /// How many numbers of a point the mean counts.
  int counted(int) const { return values; }

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const int members = channels / values;
    const double pairs = static_cast<double>(members) * (fair ? members - 1 : members);
    const T one = T(1) / static_cast<T>(members), pair = static_cast<T>(pairs > 0 ? 1 / pairs : 0);
    double loss = 0;
    for (int k = 0; k < values; ++k)
      for (int m = 0; m < members; ++m) {
        const T member = static_cast<T>(p[m * values + k]), error = member - static_cast<T>(y[k]);
        T distance = 0;
        int above = 0;  // how many more members lie below it than above
        for (int other = 0; other < members; ++other) {
          const T d = member - static_cast<T>(p[other * values + k]);
          distance += Kokkos::abs(d);
          above += static_cast<int>(d > T(0)) - static_cast<int>(d < T(0));
        }
        loss += static_cast<double>(one * Kokkos::abs(error) - pair * distance / T(2));
        const T sign = static_cast<T>(error > T(0)) - static_cast<T>(error < T(0));
        gradient[m * values + k] =
            static_cast<std::decay_t<decltype(gradient[0])>>(scale * (one * sign - pair * static_cast<T>(above)));
      }
    return loss;
  }
};

/// Whether a loss is one of each channel, `value` and `slope`, or one of all channels of a point, `point`.
template <class Loss, class T>
concept LossOfChannel = requires(const Loss& loss, T x) { loss.slope(x, x); };
/// How many numbers of a point the mean counts: the channels, or one.
template <class Loss, class T>
int counted_of(const Loss& loss, int channels) {
  if constexpr (requires { loss.counted(channels); })
    return loss.counted(channels);
  else
    return LossOfChannel<Loss, T> ? channels : 1;
}
/// Whether its labels weigh differently.
template <class Loss, class L>
concept WeighsLabels = requires(const Loss& loss, L label) { loss.weight(label, 1); };

/// Sum of the weights of a tile's points, times what the loss gives their labels, in double. weight.data null: 1
/// everywhere. One team a tile.
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
      return weight_here * loss.weight(label.at(n, 0, y, x), channels);
    else
      return weight_here;
  }
};

/// Sum of w * loss over a tile in double, and gradient = scale * w * loss'. weight.data null: 1 everywhere. Prediction
/// and gradient are stored as S, label and weight as L and W; points are computed in compute_type<S>.
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
  double factor, divisor;    ///< divisor: points and channels over all ranks, or the factor of
  const double* weight_sum;  ///< over all ranks, where there are weights
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

  /// Writes the gradient of one channel of a point; its share of the loss.
  KOKKOS_FUNCTION double channel(int n, int c, index_t y, index_t x, double scale) const {
    const T p = prediction.at(n, c, y, x), l = static_cast<T>(label.at(n, c, y, x));
    const double weight_here = weight_at(n, y, x);
    gradient.at(n, c, y, x) = static_cast<S>(static_cast<T>(scale * weight_here) * loss.slope(p, l));
    return weight_here * static_cast<double>(loss.value(p, l));
  }

  /// The same of all channels of a point.
  KOKKOS_FUNCTION double point(int n, index_t y, index_t x, double scale) const {
    const double weight_here = weight_at(n, y, x);
    const ChannelsAt<const S> p{&prediction.at(n, 0, y, x), prediction.channel_stride};
    const ChannelsAt<const L> l{&label.at(n, 0, y, x), label.channel_stride};
    const ChannelsAt<S> g{&gradient.at(n, 0, y, x), gradient.channel_stride};
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
      total += weight_here * static_cast<double>(loss.value(predicted, wanted));
      g[x] = static_cast<S>(static_cast<T>(scale * weight_here) * loss.slope(predicted, wanted));
    }
    return total;
  }
};

/// result[0] = the least of those of the numbers that count; NaN where one is. One work item.
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
