// The losses of a step as launches: what a step binds to them, and their kernels.
#pragma once

#include <memory>

#include "halogen/plan/common_launches.hpp"
#include "halogen/run/at.hpp"
#include "halogen/run/loss_sum.hpp"

namespace halogen {

/// The loss of one output, for a launch, which does not know its type.
template <class S>
struct BoundLoss {
  const void* term = nullptr;  ///< a LossTerm
  LossMean mean;
  /// Sums the weights of the points of these tiles.
  void (*weigh)(const BoundLoss&, const execution_space&, int channels, const kernels::Tiling&, double* partial) = {};
  /// Sums the losses and writes the gradient. weight_sum: over all ranks, null without weights.
  void (*run)(const BoundLoss&, const execution_space&, const TensorView<S>& prediction, const TensorView<S>& gradient,
              int channels, const kernels::Tiling&, const double* weight_sum, double* partial) = {};
};

namespace detail {
template <class S, class Loss, class L, class W>
HALOGEN_NOINLINE void weigh_loss(const BoundLoss<S>& loss, const execution_space& space, int channels,
                                 const kernels::Tiling& tiling, double* partial) {
  launch_weights(space, *static_cast<const LossTerm<Loss, L, W>*>(loss.term), channels, tiling, partial);
}
template <class S, class Loss, class L, class W>
HALOGEN_NOINLINE void run_loss(const BoundLoss<S>& loss, const execution_space& space, const TensorView<S>& prediction,
                               const TensorView<S>& gradient, int channels, const kernels::Tiling& tiling,
                               const double* weight_sum, double* partial) {
  launch_loss(space, *static_cast<const LossTerm<Loss, L, W>*>(loss.term), prediction, gradient, channels, tiling,
              loss.mean, weight_sum, partial);
}

/// `term` must outlive what is returned.
template <class S, class Loss, class L, class W>
BoundLoss<S> bound_loss(const LossTerm<Loss, L, W>& term, const LossMean& mean) {
  return {&term, mean, &weigh_loss<S, Loss, L, W>, &run_loss<S, Loss, L, W>};
}
}  // namespace detail

/// The losses of a step: what they are, and the sums that their launches gather.
template <class S>
struct StepLosses {
  std::shared_ptr<LossSum> sum;  ///< that of the whole step, if it runs in parts
  std::array<BoundLoss<S>, most_outputs> of_output{};
};

/// The weights are summed over all ranks before any gradient is written, so that gradients are exact: the first loss
/// does it for all outputs. The last one sums the losses. If the step runs in parts, both are done for all parts at
/// once (LossSum).
template <class S, Form>
void LossLaunch::run(const LaunchAt<S>& at) {
  StepLosses<S>& losses = at.losses();
  LossSum& sum = *losses.sum;
  const Plan& plan = at.plan();
  const int outputs = plan.graph.outputs, output = at.number() - plan.first_backward;
  const auto loss_of = [&losses](int i) -> const BoundLoss<S>& {
    return losses.of_output[static_cast<std::size_t>(i)];
  };
  const auto prediction_of = [&plan](int i) -> const StoredTensor& { return plan.tensors[plan.prediction[i]]; };
  const auto tiling_of = [&at, &plan](int i) -> const kernels::Tiling& {
    return at.layout().workspace().tiling(plan.first_backward + i);
  };
  const auto counted = [&](int i) {  // sums of tiles that no other rank counts too
    return at.counts_points_of(prediction_of(i).level) ? tiling_of(i).count() : 0;
  };
  if (output == 0 && !sum.of_parts()) {
    LossMeans means;
    for (int i = 0; i < outputs; ++i) means[static_cast<std::size_t>(i)] = loss_of(i).mean;
    sum.begin(at.space(), means);
    for (int i = 0; i < outputs; ++i) {
      if (!loss_of(i).mean.weighted) continue;
      loss_of(i).weigh(loss_of(i), at.space(), prediction_of(i).channels, tiling_of(i), at.partials());
      sum.add_weights(at.space(), i, at.partials(), counted(i));
    }
    sum.sum_weights(at.space());
  }
  loss_of(output).run(loss_of(output), at.space(), at.stored_tensor(plan.prediction[output]),
                      at.stored_tensor(at.launch().output), prediction_of(output).channels, tiling_of(output),
                      sum.weight_of(output), at.partials());
  sum.add_losses(at.space(), output, at.partials(), counted(output));
  if (output + 1 == outputs && !sum.of_parts()) sum.sum_losses(at.space());
}

}  // namespace halogen
