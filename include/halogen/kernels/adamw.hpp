// AdamW on flat arrays, one launch for all parameters. Formula: torch.optim.AdamW (decoupled weight decay).
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"

namespace halogen::kernels {

template <class T>
struct AdamWStep {
  T* parameters;
  const T* gradient;
  T* first_moment;
  T* second_moment;
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double correction1, correction2;  ///< 1 - beta^t

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const T g = gradient[i];
    T p = parameters[i] * static_cast<T>(1.0 - learning_rate * weight_decay);
    const T m = first_moment[i] + (g - first_moment[i]) * static_cast<T>(1.0 - beta1);
    const T v = second_moment[i] * static_cast<T>(beta2) + g * g * static_cast<T>(1.0 - beta2);
    first_moment[i] = m;
    second_moment[i] = v;
    const T denominator = Kokkos::sqrt(v) / static_cast<T>(Kokkos::sqrt(correction2)) + static_cast<T>(epsilon);
    parameters[i] = p - static_cast<T>(learning_rate / correction1) * (m / denominator);
  }
};

}  // namespace halogen::kernels
