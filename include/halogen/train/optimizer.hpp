// Optimisers: one kernel over the flat parameters. AdamW as torch.optim.AdamW.
#pragma once

#include "halogen/core/why.hpp"
#include "halogen/kernels/adamw.hpp"
#include "halogen/train/parameters.hpp"

namespace halogen {

/// Settings, with torch.optim.AdamW's defaults; OptimizerState holds the moments.
struct AdamW {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

/// AdamW's moments for one model, placed as its parameters. step() emits no communication.
template <class ModelType, class T, Placement P = Replicate>
class OptimizerState {
 public:
  explicit OptimizerState(AdamW settings)
    requires std::is_same_v<P, Replicate>
      : settings_(settings), first_("halogen::first_moment"), second_("halogen::second_moment") {}
  OptimizerState(AdamW settings, const Parameters<ModelType, T, P>& parameters)
      : settings_(settings),
        first_(parameters.zeros("halogen::first_moment")),
        second_(parameters.zeros("halogen::second_moment")) {}

  /// parameters -= update of the gradient, which is placed as they are. Nothing is updated where *loss_weight, if there
  /// is one, is not positive.
  void step(const Parameters<ModelType, T, P>& parameters, const Parameters<ModelType, T, P>& gradient,
            const double* loss_weight = nullptr) {
    const execution_space space;
    launch_range(
        space, "halogen::adamw_schedule", 1,
        kernels::AdamWAdvance<T>{schedule_.data(), settings_.lr, settings_.beta1, settings_.beta2, loss_weight});
    const kernels::AdamWStep<T> kernel{parameters.data(),
                                       gradient.data(),
                                       first_.data(),
                                       second_.data(),
                                       schedule_.data(),
                                       static_cast<T>(1 - settings_.lr * settings_.weight_decay),
                                       static_cast<T>(settings_.beta2),
                                       static_cast<T>(1 - settings_.beta1),
                                       static_cast<T>(1 - settings_.beta2),
                                       static_cast<T>(settings_.eps)};
    launch_range(space, "halogen::adamw", static_cast<index_t>(parameters.view().size()), kernel);
  }
  template <class Why = why::gradient_is_partial>
  void step(const Parameters<ModelType, T, P>& parameters,
            const Parameters<ModelType, T, Partial<Sum>>& gradient) = delete;

  std::size_t bytes() const { return (first_.view().size() + second_.view().size()) * sizeof(T); }

 private:
  AdamW settings_;
  Parameters<ModelType, T, P> first_, second_;
  Kokkos::View<kernels::AdamWSchedule<T>, memory_space> schedule_{"halogen::adamw_schedule"};
};

}  // namespace halogen
