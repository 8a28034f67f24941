// What follows from the order of a plan's launches: how long tensors live, and where stages end.
#pragma once

#include "halogen/plan/plan.hpp"

namespace halogen::detail {

/// Finds the first and the last launch that write each stored tensor, and the last launch that reads it.
constexpr void find_lifetimes(PlanDraft& plan) {
  for (StoredTensor& tensor : plan.tensors) tensor.first_launch = tensor.last_write = tensor.last_launch = -1;
  for (int i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    for (const TensorId written : {launch.output, launch.kept}) {
      if (written < 0 || plan.tensors[written].external) continue;
      StoredTensor& tensor = plan.tensors[written];
      if (tensor.first_launch < 0) tensor.first_launch = i;
      tensor.last_write = tensor.last_launch = i;
    }
    plan.for_each_read(launch, [&](TensorId tensor) { plan.tensors[tensor].last_launch = i; });
  }
  for (int i = 0; i < plan.graph.outputs; ++i)  // the user may read them after the step
    plan.tensors[plan.prediction[i]].last_launch = plan.launches.size();
  for (const TensorId gradient : plan.input_gradient)
    if (gradient >= 0) plan.tensors[gradient].last_launch = plan.launches.size();
}

/// A stage ends with a launch that completes a stored tensor or gathers sums over ranks.
constexpr void number_stages(PlanDraft& plan) {
  int stage = 0;
  for (int i = 0; i < plan.launches.size(); ++i) {
    Launch& launch = plan.launches[i];
    launch.stage = stage;
    bool completes = false;
    for (const TensorId written : {launch.output, launch.kept})
      completes |= written >= 0 && plan.tensors[written].last_write == i;
    plan.stages = stage + 1;
    if (completes || launch.statistics >= 0 || launch.sums >= 0) ++stage;
  }
}

}  // namespace halogen::detail
