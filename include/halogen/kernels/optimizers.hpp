// Optimisers on flat arrays, one launch for all parameters: what a step makes of a value, its gradient and its moments.
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"
#include "halogen/core/rate_schedule.hpp"

namespace halogen::kernels {

/// Groups of parameters, each with its own share of learning rate and weight decay.
inline constexpr int most_groups = 8;
struct GroupFactors {
  int groups = 1;
  double rate[most_groups] = {1, 1, 1, 1, 1, 1, 1, 1}, decay[most_groups] = {1, 1, 1, 1, 1, 1, 1, 1};
};

/// What changes from step to step; on the device, so that a step's launches are the same each time.
template <class T>
struct OptimizerSchedule {
  index_t t;                ///< steps so far
  double lr;                ///< before the schedule
  T rate[most_groups];      ///< by which the rule's step is multiplied
  T decay[most_groups];     ///< as the rule has it
  T correction, deviation;  ///< the rule's own
  T clip;                   ///< of the gradient, at most 1
  int is_updating;          ///< not where the loss has no weight, and so no gradient
};

/// Sets the learning rate and the steps so far, where they are not negative. One work item.
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

/// To the next step. One work item.
template <class T, class Rule>
struct OptimizerAdvance {
  OptimizerSchedule<T>* schedule;
  Rule rule;
  RateSchedule rates;
  GroupFactors factors;
  double weight_decay;
  const double* loss_weight;      ///< null: none
  const double* gradient_square;  ///< of its norm; null: it is not clipped
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
    schedule->clip = static_cast<T>(most >= 1 ? 1 : most);  // of NaN NaN, as PyTorch's
  }
};

/// What a rule is told of one value: its moments, and the numbers of its group.
template <class T>
struct ValueState {
  T* first;   ///< null where the rule has no moments
  T* second;  ///< null where it has one
  T rate, decay, correction, deviation;
};

/// torch.optim.AdamW, or where decay is `coupled` torch.optim.Adam.
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

  KOKKOS_FUNCTION T operator()(T value, T gradient, const ValueState<T>& of) const {
    const T g = coupled ? gradient + of.decay * value : gradient;
    const T p = coupled ? value : value * of.decay;
    const T m = *of.first + (g - *of.first) * new1;
    const T v = *of.second * beta2 + g * g * new2;
    *of.first = m;
    *of.second = v;
    return p - of.rate * (m / (Kokkos::sqrt(v) / of.correction + epsilon));
  }
};

/// torch.optim.SGD.
template <class T>
struct MomentumRule {
  T momentum, fresh;  ///< fresh: 1 - dampening
  bool nesterov;

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  /// Whether the buffer is there already.
  KOKKOS_FUNCTION double correction(double t) const { return t > 1 ? 1 : 0; }

  KOKKOS_FUNCTION T operator()(T value, T gradient, const ValueState<T>& of) const {
    const T g = gradient + of.decay * value;
    if (of.first == nullptr) return value - of.rate * g;
    const T buffer = of.correction > T(0) ? momentum * *of.first + fresh * g : g;
    *of.first = buffer;
    return value - of.rate * (nesterov ? g + momentum * buffer : buffer);
  }
};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023).
template <class T>
struct LionRule {
  T beta1, beta2;

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double lr, double weight_decay) const { return 1 - lr * weight_decay; }
  KOKKOS_FUNCTION double correction(double) const { return 1; }

  KOKKOS_FUNCTION T operator()(T value, T gradient, const ValueState<T>& of) const {
    const T m = *of.first, towards = beta1 * m + (T(1) - beta1) * gradient;
    *of.first = beta2 * m + (T(1) - beta2) * gradient;
    const T sign = static_cast<T>(towards > T(0)) - static_cast<T>(towards < T(0));
    return value * of.decay - of.rate * sign;
  }
};

/// One step of all values. With `direction` the step is not taken, but written there, for a rule that scales it by
/// norms (LAMB).
template <class T, class Rule>
struct OptimizerStep {
  T* parameters;
  const T* gradient;
  T* first;
  T* second;
  const OptimizerSchedule<T>* schedule;
  Rule rule;
  const unsigned short* tensor = nullptr;   ///< of each value; null: there is one group
  const unsigned char* group_of = nullptr;  ///< of each tensor
  T max_value = 0;                          ///< of a gradient's components; 0: any
  T* average = nullptr;                     ///< moving average of the values
  T renewed = 0;                            ///< share of the new values in it
  T* direction = nullptr;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    if (!schedule->is_updating) return;
    const int group = tensor == nullptr ? 0 : group_of[tensor[i]];
    T g = gradient[i] * schedule->clip;
    if (max_value > T(0)) g = g > max_value ? max_value : g < -max_value ? -max_value : g;
    const ValueState<T> state{first == nullptr ? nullptr : first + i,
                              second == nullptr ? nullptr : second + i,
                              schedule->rate[group],
                              schedule->decay[group],
                              schedule->correction,
                              schedule->deviation};
    const T value = rule(parameters[i], g, state);
    if (direction != nullptr)
      direction[i] = value;
    else
      take(i, value);
  }

  KOKKOS_FUNCTION void take(const index_t i, T value) const {
    parameters[i] = value;
    if (average != nullptr) average[i] = schedule->t == 1 ? value : average[i] + (value - average[i]) * renewed;
  }
};

}  // namespace halogen::kernels
