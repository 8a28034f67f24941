// Optimisers on flat arrays, one launch for all parameters. A step takes a value, its gradient and its moments.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <type_traits>

#include "halogen/core/config.hpp"
#include "halogen/core/rate_schedule.hpp"
#include "halogen/kernels/tiles/device_team.hpp"
#include "halogen/kernels/vector/simd.hpp"

namespace halogen::kernels {

/// Groups of parameters. Each multiplies the learning rate and the weight decay by factors of its own.
inline constexpr int most_groups = 8;
struct GroupFactors {
  int groups = 1;
  double rate[most_groups] = {1, 1, 1, 1, 1, 1, 1, 1}, decay[most_groups] = {1, 1, 1, 1, 1, 1, 1, 1};
};

/// What changes from step to step. It is on the device, so that the launches of a step are the same each time.
template <class T>
struct OptimizerSchedule {
  index_t t;                ///< how many steps were taken
  double lr;                ///< before the schedule
  T rate[most_groups];      ///< the factor of the rule's step
  T decay[most_groups];     ///< as the rule computes it
  T correction, deviation;  ///< numbers of the rule
  T clip;                   ///< factor of the gradient, at most 1
  int is_updating;          ///< 0 if the loss has no weight, and so no gradient
};

/// Sets the learning rate and the number of steps, unless they are negative. One work item.
template <class T>
struct OptimizerSet {
  OptimizerSchedule<T>* schedule;
  double lr;
  index_t t;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    if (lr >= 0) schedule->lr = lr;
    if (t >= 0) schedule->t = t;
  }
};

/// Goes to the next step. One work item.
template <class T, class Rule>
struct OptimizerAdvance {
  OptimizerSchedule<T>* schedule;
  Rule rule;
  RateSchedule rates;
  GroupFactors factors;
  double weight_decay;
  const double* loss_weight;      ///< null: the loss has no weights
  const double* gradient_square;  ///< of the gradient's norm; null: the gradient is not clipped
  double max_norm;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    schedule->is_updating = loss_weight == nullptr || *loss_weight > 0;
    if (!schedule->is_updating) return;
    const double lr = schedule->lr * rates.factor(schedule->t);
    const auto t = static_cast<double>(++schedule->t);
    for (int g = 0; g < factors.groups; ++g) {
      schedule->rate[g] = static_cast<T>(rule.rate(lr * factors.rate[g], t));
      schedule->decay[g] = static_cast<T>(rule.decay(lr * factors.rate[g], weight_decay * factors.decay[g]));
    }
    schedule->correction = static_cast<T>(rule.correction(t));
    if constexpr (requires { rule.deviation(t); }) schedule->deviation = static_cast<T>(rule.deviation(t));
    const double most = gradient_square == nullptr ? 1 : max_norm / (Kokkos::sqrt(*gradient_square) + 1e-6);
    schedule->clip = static_cast<T>(most >= 1 ? 1 : most);  // NaN gives NaN, as in PyTorch
  }
};

/// What a rule knows about a value (on the host also about a vector of values): its moments, and the numbers of its
/// group.
template <class T, class V = T>
struct ValueState {
  V* first;   ///< null if the rule has no moments
  V* second;  ///< null if the rule has one moment
  T rate, decay, correction, deviation;
};

/// torch.optim.AdamW. If decay is `coupled`, torch.optim.Adam.
template <class T>
struct AdamRule {
  double beta1, beta2_;
  T beta2, new1, new2;  ///< new: 1 - beta
  T epsilon;
  bool coupled = false;

  static AdamRule of(double beta1, double beta2, double eps, bool coupled) {
    return {
        beta1,  beta2, static_cast<T>(beta2), static_cast<T>(1 - beta1), static_cast<T>(1 - beta2), static_cast<T>(eps),
        coupled};
  }
  KOKKOS_FUNCTION double rate(double lr, double t) const { return lr / (1 - Kokkos::pow(beta1, t)); }
  KOKKOS_FUNCTION double decay(double lr, double weight_decay) const {
    return coupled ? weight_decay : 1 - lr * weight_decay;
  }
  KOKKOS_FUNCTION double correction(double t) const { return Kokkos::sqrt(1 - Kokkos::pow(beta2_, t)); }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V g = coupled ? V(gradient + of.decay * value) : gradient;
    const V p = coupled ? value : V(value * of.decay);
    const V m = *of.first + (g - *of.first) * new1;
    const V v = *of.second * beta2 + g * g * new2;
    *of.first = m;
    *of.second = v;
    return p - of.rate * (m / (square_root<T>(v) / of.correction + epsilon));
  }
};

/// torch.optim.SGD.
template <class T>
struct MomentumRule {
  T momentum, fresh;  ///< 1 - dampening
  bool nesterov;

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  /// Whether there is a buffer already.
  KOKKOS_FUNCTION double correction(double t) const { return t > 1 ? 1 : 0; }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V g = gradient + of.decay * value;
    if (of.first == nullptr) return value - of.rate * g;
    const V buffer = of.correction > T(0) ? V(momentum * *of.first + fresh * g) : g;
    *of.first = buffer;
    return value - of.rate * (nesterov ? V(g + momentum * buffer) : buffer);
  }
};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023).
template <class T>
struct LionRule {
  T beta1, beta2;

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double lr, double weight_decay) const { return 1 - lr * weight_decay; }
  KOKKOS_FUNCTION double correction(double) const { return 1; }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V m = *of.first, towards = beta1 * m + (T(1) - beta1) * gradient;
    *of.first = beta2 * m + (T(1) - beta2) * gradient;
    return value * of.decay - of.rate * sign_of<T>(towards);
  }
};

/// torch.optim.RMSprop. The second moment is the buffer of the momentum, if there is any.
template <class T>
struct RmsRule {
  T alpha, fresh, epsilon, momentum;  ///< fresh: 1 - alpha

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  KOKKOS_FUNCTION double correction(double) const { return 1; }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V g = gradient + of.decay * value;
    const V square = *of.first * alpha + g * g * fresh;
    *of.first = square;
    const V step = g / (square_root<T>(square) + epsilon);
    if (of.second == nullptr) return value - of.rate * step;
    const V buffer = momentum * *of.second + step;
    *of.second = buffer;
    return value - of.rate * buffer;
  }
};

/// torch.optim.Adagrad (Duchi, Hazan, Singer, JMLR 12, 2011).
template <class T>
struct AdagradRule {
  double rate_decay;
  T epsilon;

  KOKKOS_FUNCTION double rate(double lr, double t) const { return lr / (1 + (t - 1) * rate_decay); }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  KOKKOS_FUNCTION double correction(double) const { return 1; }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V g = gradient + of.decay * value;
    const V sum = *of.first + g * g;
    *of.first = sum;
    return value - of.rate * (g / (square_root<T>(sum) + epsilon));
  }
};

/// One step of all values. If `direction` is set, the step is not taken but written there, for a rule that scales it by
/// norms (LAMB).
template <class T, class Rule>
struct OptimizerStep {
  T* parameters;
  const T* gradient;
  T* first;
  T* second;
  const OptimizerSchedule<T>* schedule;
  Rule rule;
  const unsigned short* tensor = nullptr;   ///< the tensor of each value; null: there is one group
  const unsigned char* group_of = nullptr;  ///< the group of each tensor
  T max_value = 0;                          ///< limit for each component of the gradient; 0: no limit
  T* average = nullptr;                     ///< moving average of the values
  T renewed = 0;                            ///< weight of the new values in it
  T* direction = nullptr;
  index_t count = 0;  ///< number of values

  /// Neighbouring threads of a device compute neighbouring values. A thread of the host computes a block of values, by
  /// vectors.
  static constexpr index_t values_of_item = device::runs_on<Kokkos::DefaultExecutionSpace> ? 1 : 4096;
  index_t items() const { return ceil_div(count, values_of_item); }

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    if (!schedule->is_updating) return;
    HALOGEN_HOST_PART(block(item * values_of_item, std::min(count, (item + 1) * values_of_item));)
    HALOGEN_DEVICE_PART(update(item);)
  }

  KOKKOS_FUNCTION void take(const index_t i, T value) const {
    parameters[i] = value;
    if (average != nullptr) average[i] = averaged(average[i], value);
  }

 private:
  template <class V>
  KOKKOS_FUNCTION V averaged(V before, V value) const {
    return schedule->t == 1 ? value : V(before + (value - before) * renewed);
  }
  KOKKOS_FUNCTION ValueState<T> state_of(int group, T* of_first, T* of_second) const {
    return {of_first,           of_second, schedule->rate[group], schedule->decay[group], schedule->correction,
            schedule->deviation};
  }

  /// Host: values [begin, end), in runs of one group each.
  void block(index_t begin, index_t end) const {
    while (begin < end) {
      const int group = tensor == nullptr ? 0 : group_of[tensor[begin]];
      index_t until = tensor == nullptr ? end : begin + 1;
      while (until < end && group_of[tensor[until]] == group) ++until;
      const ValueState<T> numbers = state_of(group, nullptr, nullptr);
      if (second != nullptr)
        run<true, true>(begin, until, numbers);
      else if (first != nullptr)
        run<true, false>(begin, until, numbers);
      else
        run<false, false>(begin, until, numbers);
      begin = until;
    }
  }
  template <bool HasFirst, bool HasSecond>
  void run(index_t begin, index_t end, const ValueState<T>& of) const {
    const T clip = schedule->clip, most = max_value;
    T* const to = direction != nullptr ? direction : parameters;
    T* const mean = direction != nullptr ? nullptr : average;
    const auto update = [&, this]<class V>(index_t at) {
      const index_t i = begin + at;
      V m{}, v{};
      if constexpr (HasFirst) m = load<V>(first + i);
      if constexpr (HasSecond) v = load<V>(second + i);
      V g = load<V>(gradient + i) * clip;
      if (most > T(0)) g = limited<T>(g, most);
      const ValueState<T, V> state{
          HasFirst ? &m : nullptr, HasSecond ? &v : nullptr, of.rate, of.decay, of.correction, of.deviation};
      const V value = rule(load<V>(parameters + i), g, state);
      if constexpr (HasFirst) store(first + i, m);
      if constexpr (HasSecond) store(second + i, v);
      store(to + i, value);
      if (mean != nullptr) store(mean + i, averaged(load<V>(mean + i), value));
    };
    using V = Vector<T>;
    if constexpr (std::is_invocable_v<const Rule&, V, V, const ValueState<T, V>&>)
      for_each_vector<T>(end - begin, update);
    else  // a rule of single numbers
      for (index_t at = 0; at < end - begin; ++at) update.template operator()<T>(at);
  }

  /// Device: value i.
  KOKKOS_FUNCTION void update(index_t i) const {
    T g = gradient[i] * schedule->clip;
    if (max_value > T(0)) g = limited<T>(g, max_value);
    const ValueState<T> state =
        state_of(tensor == nullptr ? 0 : group_of[tensor[i]], first == nullptr ? nullptr : first + i,
                 second == nullptr ? nullptr : second + i);
    const T value = rule(parameters[i], g, state);
    if (direction != nullptr)
      direction[i] = value;
    else
      take(i, value);
  }
};

}  // namespace halogen::kernels
