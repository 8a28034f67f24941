// Kernels of the launches that belong to no operation (plan/common_launches.hpp).
#pragma once

#include "halogen/kernels/pointwise/linear_resampling.hpp"
#include "halogen/kernels/pointwise/pad.hpp"
#include "halogen/plan/common_launches.hpp"
#include "halogen/run/at.hpp"

namespace halogen {

template <class S, Form>
auto StoreValue::rows(const LaunchAt<S>& at) {
  return kernels::CopyRows<S, kernels::ValueReader<S>>{at.value(0), 0};
}

template <class S, Form>
auto StoreGradient::rows(const LaunchAt<S>& at) {
  return kernels::CopyRows<S, kernels::GradientReader<S>>{at.gradient(0), at.first_channel()};
}

template <class S, Form>
auto AddGradients::rows(const LaunchAt<S>& at) {
  return kernels::CopyRows<S, kernels::GradientReader<S>>{at.gradient(0), 0};
}

template <class S, Form F>
auto ResamplingAdjoint::rows(const LaunchAt<S>& at) {
  constexpr auto resampling = static_cast<Resampling>(F.number[0]);
  using Adjoint = std::conditional_t<resampling == Resampling::linear, kernels::LinearBackwardRows<S>,
                                     std::conditional_t<resampling == Resampling::padded, kernels::PadBackwardRows<S>,
                                                        kernels::NearestBackwardRows<S>>>;
  Adjoint rows{at.gradient(0), {}};
  const Source& source = at.plan().source_of(at.launch());
  const int coarse = at.plan().tensors[at.launch().output].level, fine = at.plan().input_of(at.launch()).level;
  for (int d = 0; d < spatial_dimensions; ++d) {
    rows.map[d] = resample(at.layout().levels(), source, coarse, fine, d);
    if constexpr (resampling == Resampling::padded) rows.padded.frame.periodic[d] = rows.map[d].wraps();
  }
  return rows;
}

inline WorkspaceUse ExpandAdjoint::workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
  return VectorSumLaunch::workspace(at, tiling);
}

template <class S, Form>
void ExpandAdjoint::run(const LaunchAt<S>& at) {
  at.sum_points(label, at.gradient(0));
  at.write_vectors(label, kernels::MeanRows<S>{at.rank_sums(), at.plan().tensors[at.launch().output].channels, 1.0});
}

template <class S, Form>
void TensorSums::run(const LaunchAt<S>& at) {
  at.gather_sums(at.launch().statistics >= 0 ? Moments::label : GradientSums::label);
}

/// Copies the owned points of a stored tensor to a field of the same cut.
template <class S>
void copy_stored(const execution_space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands,
                 TensorId tensor, const TensorView<S>& to) {
  Value value;
  value.level = plan.tensors[tensor].level;
  value.sources.push({tensor, {}, {}, false, plan.tensors[tensor].channels});
  detail::write_field(space, "halogen::copy",
                      kernels::CopyRows<S, kernels::ValueReader<S>>{operands.value_reader(value), 0}, to, layout,
                      plan.tensors[tensor]);
}

}  // namespace halogen
