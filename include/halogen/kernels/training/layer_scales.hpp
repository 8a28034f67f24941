// Kernels of LAMB (You et al., "Large Batch Optimization for Deep Learning", ICLR 2020).
#pragma once

#include "halogen/kernels/sums/merge.hpp"
#include "halogen/kernels/training/optimizers.hpp"

namespace halogen::kernels {

/// The step of AdamW as a direction: m / (sqrt(v) + eps), both with their bias corrected, plus weight_decay times the
/// value.
template <class T>
struct LambRule {
  AdamRule<T> adam;

  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  KOKKOS_FUNCTION double correction(double t) const { return 1 - Kokkos::pow(adam.beta1, t); }
  KOKKOS_FUNCTION double deviation(double t) const { return adam.correction(t); }

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V operator()(V value, V gradient, const ValueState<T, V>& of) const {
    const V m = *of.first + (gradient - *of.first) * adam.new1;
    const V v = *of.second * adam.beta2 + gradient * gradient * adam.new2;
    *of.first = m;
    *of.second = v;
    return m / of.correction / (square_root<T>(v) / of.deviation + adam.epsilon) + of.decay * value;
  }
};

/// Values [begin, end) of one tensor.
struct TensorBlock {
  index_t begin, end;
};

/// The sums of the squares of a block's values and of its step. One work item for each block.
template <class T>
struct BlockNorms {
  const T* values;
  const T* direction;
  const TensorBlock* blocks;
  double* partial;  ///< [block][2]

  KOKKOS_FUNCTION void operator()(const index_t b) const {
    double of_values = 0, of_step = 0;
    for (index_t i = blocks[b].begin; i < blocks[b].end; ++i) {
      of_values += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      of_step += static_cast<double>(direction[i]) * static_cast<double>(direction[i]);
    }
    partial[2 * b] = of_values;
    partial[2 * b + 1] = of_step;
  }
};

/// The sums of these over the blocks of a tensor. One work item for each sum, two for each tensor.
struct TensorNorms {
  const double* partial;
  const index_t* first_block;  ///< of each tensor, and the end of the last
  double* sums;

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t first = first_block[item / 2], count = first_block[item / 2 + 1] - first;
    sums[item] = merged<double>(count, [&](index_t b) { return partial[2 * (first + b) + item % 2]; });
  }
};

/// value -= rate * |values of its tensor| / |step of its tensor| * step.
template <class T, class Step>
struct ScaledStep {
  Step of;
  const double* sums;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    if (!of.schedule->is_updating) return;
    const int tensor = of.tensor[i];
    const double values = Kokkos::sqrt(sums[2 * tensor]), step = Kokkos::sqrt(sums[2 * tensor + 1]);
    const T scale = values > 0 && step > 0 ? static_cast<T>(values / step) : T(1);
    of.take(i, of.parameters[i] - of.schedule->rate[of.group_of[tensor]] * scale * of.direction[i]);
  }
};

}  // namespace halogen::kernels
