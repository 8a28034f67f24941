// What of a launch the types of its kernels depend on.
#pragma once

#include <array>

#include "halogen/run/convolution_form.hpp"

namespace halogen {

/// Launches of one form are one function. What the compiler asks of a launch it asks of this, not of the plan: nvcc
/// keeps a copy of what it looks into for each look.
struct LaunchForm {
  LaunchKind kind{};
  Resampling resampling = Resampling::nearest;
  bool by_taps = false;  ///< by the kernels over lists of taps; what follows is not asked
  bool weights = false;  ///< as Launch::weights
  int winograd = 0;      ///< the window that is computed by Winograd's tiles, else 0
  bool winograd_by_rows = false;
  int kernel_height = 0, kernel_width = 0;  ///< of a convolution by direct loops
};

constexpr LaunchForm launch_form(const Plan& plan, const Launch& launch) {
  LaunchForm form;
  form.kind = launch.kind;
  form.resampling = launch.resampling();
  form.by_taps = by_taps(plan.node_of(launch), launch.kind);
  form.weights = launch.weights;
  if (form.by_taps) return form;
  form.winograd = plan.winograd(launch);
  form.winograd_by_rows = plan.winograd_by_rows(launch);
  if (form.winograd > 0 || !is_convolution(form.kind)) return form;
  form.kernel_height = plan.node_of(launch).window[1].kernel;
  form.kernel_width = plan.node_of(launch).window[2].kernel;
  return form;
}

/// Of all launches of a plan; Count is their number.
template <int Count>
constexpr std::array<LaunchForm, Count> launch_forms(const Plan& plan) {
  std::array<LaunchForm, Count> forms;
  for (int i = 0; i < Count; ++i) forms[i] = launch_form(plan, plan.launches[i]);
  return forms;
}

}  // namespace halogen
