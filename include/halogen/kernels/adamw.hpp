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
  T decay;              ///< 1 - learning rate * weight decay
  T step;               ///< learning rate / (1 - beta1^t)
  T beta2, new1, new2;  ///< new: 1 - beta
  T deviation;          ///< sqrt(1 - beta2^t)
  T epsilon;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const T g = gradient[i];
    const T p = parameters[i] * decay;
    const T m = first_moment[i] + (g - first_moment[i]) * new1;
    const T v = second_moment[i] * beta2 + g * g * new2;
    first_moment[i] = m;
    second_moment[i] = v;
    parameters[i] = p - step * (m / (Kokkos::sqrt(v) / deviation + epsilon));
  }
};

}  // namespace halogen::kernels
