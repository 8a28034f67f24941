// AdamW on flat arrays, one launch for all parameters. Formula: torch.optim.AdamW (decoupled weight decay).
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"

namespace halogen::kernels {

/// What changes from step to step; on the device, so that a step's launches are the same each time.
template <class T>
struct AdamWSchedule {
  index_t t;        ///< steps so far
  double lr;        ///< of the next step
  T decay;          ///< 1 - learning rate * weight decay
  T step;           ///< learning rate / (1 - beta1^t)
  T deviation;      ///< sqrt(1 - beta2^t)
  T clip;           ///< of the gradient, at most 1
  int is_updating;  ///< not where the loss has no weight, and so no gradient
};

/// Sets the learning rate and the steps so far, where they are not negative. One work item.
template <class T>
struct AdamWSet {
  AdamWSchedule<T>* schedule;
  double lr;
  index_t t;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    if (lr >= 0) schedule->lr = lr;
    if (t >= 0) schedule->t = t;
  }
};

/// To the next step. One work item.
template <class T>
struct AdamWAdvance {
  AdamWSchedule<T>* schedule;
  double beta1, beta2, weight_decay;
  const double* loss_weight;      ///< null: none
  const double* gradient_square;  ///< of its norm; null: it is not clipped
  double max_norm;

  KOKKOS_FUNCTION void operator()(const index_t) const {
    schedule->is_updating = loss_weight == nullptr || *loss_weight > 0;
    if (!schedule->is_updating) return;
    const auto t = static_cast<double>(++schedule->t);
    schedule->decay = static_cast<T>(1 - schedule->lr * weight_decay);
    schedule->step = static_cast<T>(schedule->lr / (1 - Kokkos::pow(beta1, t)));
    schedule->deviation = static_cast<T>(Kokkos::sqrt(1 - Kokkos::pow(beta2, t)));
    const double most = gradient_square == nullptr ? 1 : max_norm / (Kokkos::sqrt(*gradient_square) + 1e-6);
    schedule->clip = static_cast<T>(most >= 1 ? 1 : most);  // of NaN NaN, as PyTorch's
  }
};

template <class T>
struct AdamWStep {
  T* parameters;
  const T* gradient;
  T* first_moment;
  T* second_moment;
  const AdamWSchedule<T>* schedule;
  T beta2, new1, new2;  ///< new: 1 - beta
  T epsilon;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    if (!schedule->is_updating) return;
    const T step = schedule->step, deviation = schedule->deviation;
    const T g = gradient[i] * schedule->clip;
    const T p = parameters[i] * schedule->decay;
    const T m = first_moment[i] + (g - first_moment[i]) * new1;
    const T v = second_moment[i] * beta2 + g * g * new2;
    first_moment[i] = m;
    second_moment[i] = v;
    parameters[i] = p - step * (m / (Kokkos::sqrt(v) / deviation + epsilon));
  }
};

}  // namespace halogen::kernels
