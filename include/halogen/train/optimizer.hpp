// Optimisers: one kernel over the flat parameters. AdamW as torch.optim.AdamW.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "halogen/core/config.hpp"
#include "halogen/core/why.hpp"
#include "halogen/kernels/adamw.hpp"
#include "halogen/train/gradient_norm.hpp"
#include "halogen/train/sharded_parameters.hpp"

namespace halogen {

/// Settings, with torch.optim.AdamW's defaults; OptimizerState holds the moments. A positive max_norm clips the
/// gradient before each step to that norm over all parameters, as torch.nn.utils.clip_grad_norm_.
struct AdamW {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2, max_norm = 0;
};

/// Throws CollectiveError for settings with which a step would go astray, as torch.optim.AdamW refuses them.
const AdamW& checked(const AdamW& settings);
#if HALOGEN_BODIES
HALOGEN_INLINE const AdamW& checked(const AdamW& settings) {
  const auto refuse = [](const char* name, double value, const char* wanted) {
    throw CollectiveError("AdamW: " + std::string(name) + " = " + std::to_string(value) + ": give " + wanted);
  };
  for (const auto& [name, value] :
       {std::pair{"lr", settings.lr}, std::pair{"eps", settings.eps}, std::pair{"weight_decay", settings.weight_decay},
        std::pair{"max_norm", settings.max_norm}})
    if (!(value >= 0 && std::isfinite(value))) refuse(name, value, "a finite number of 0 or more");
  for (const auto& [name, value] : {std::pair{"beta1", settings.beta1}, std::pair{"beta2", settings.beta2}})
    if (!(value >= 0 && value < 1)) refuse(name, value, "0 or more and less than 1");
  return settings;
}
#endif

/// AdamW's moments for one model, placed as its parameters. step() emits no communication, but one all_reduce of one
/// number where shards are clipped. Throws CollectiveError for
/// settings that are no AdamW's, and for parameters that are sharded otherwise than those it was made for.
template <class ModelType, class T, Placement P = Replicate>
class OptimizerState {
 public:
  explicit OptimizerState(AdamW settings)
    requires std::is_same_v<P, Replicate>
      : settings_(checked(settings)), first_("halogen::first_moment"), second_("halogen::second_moment") {
    start(Communicator());
  }
  OptimizerState(AdamW settings, const Parameters<ModelType, T, P>& parameters)
      : settings_(checked(settings)),
        first_(parameters.zeros("halogen::first_moment")),
        second_(parameters.zeros("halogen::second_moment")) {
    if constexpr (std::is_same_v<P, Replicate>)
      start(Communicator());
    else
      start(parameters.sharding()->group);
  }
  OptimizerState(OptimizerState&&) = default;
  OptimizerState& operator=(OptimizerState&&) = default;

  /// parameters -= update of the gradient, which is placed as they are. Nothing is updated where *loss_weight, if there
  /// is one, is not positive.
  void step(const Parameters<ModelType, T, P>& parameters, const Parameters<ModelType, T, P>& gradient,
            const double* loss_weight = nullptr) {
    if (!parameters.is_laid_out_as(first_) || !gradient.is_laid_out_as(first_))
      throw CollectiveError(
          "AdamW: the parameters or their gradient are sharded otherwise than those that its moments were made for: "
          "make the OptimizerState from these parameters");
    const execution_space space;
    const double* square = norm_ ? norm_->square(space, gradient.data(), gradient.view().size()) : nullptr;
    launch_range(space, "halogen::adamw_schedule", 1,
                 kernels::AdamWAdvance<T>{schedule_.data(), settings_.beta1, settings_.beta2, settings_.weight_decay,
                                          loss_weight, square, settings_.max_norm});
    const kernels::AdamWStep<T> kernel{parameters.data(),
                                       gradient.data(),
                                       first_.data(),
                                       second_.data(),
                                       schedule_.data(),
                                       static_cast<T>(settings_.beta2),
                                       static_cast<T>(1 - settings_.beta1),
                                       static_cast<T>(1 - settings_.beta2),
                                       static_cast<T>(settings_.eps)};
    launch_range(space, "halogen::adamw", parameters.trained_values(), kernel);
  }
  template <class Why = why::gradient_is_partial>
  void step(const Parameters<ModelType, T, P>& parameters,
            const Parameters<ModelType, T, Partial<Sum>>& gradient) = delete;

  /// Of the next steps, captured ones too; nothing is waited for. Give all ranks the same.
  void set_learning_rate(double lr) {
    AdamW settings = settings_;
    settings.lr = lr;
    settings_ = checked(settings);
    set(lr, -1);
  }
  double learning_rate() const { return settings_.lr; }

  /// Updates so far; waits for the device.
  index_t steps() const { return host_copy(Kokkos::View<const Schedule*, memory_space>(schedule_))[0].t; }

  /// The same, where kernels read it.
  const index_t* steps_on_device() const { return &schedule_.data()->t; }

  /// torch's exp_avg and exp_avg_sq. Copies share their memory: what is copied into one is the state's.
  const Parameters<ModelType, T, P>& first_moment() const { return first_; }
  const Parameters<ModelType, T, P>& second_moment() const { return second_; }
  /// Goes on as after so many steps, which left the moments that it now has.
  void set_steps(index_t steps) {
    if (steps < 0) throw CollectiveError("AdamW: " + std::to_string(steps) + " steps: give 0 or more");
    set(-1, steps);
  }

  /// Another number for each state that was made: whoever has kept pointers into it knows it again.
  std::size_t identity() const { return identity_; }

  std::size_t bytes() const { return (first_.view().size() + second_.view().size()) * sizeof(T); }

 private:
  using Schedule = kernels::AdamWSchedule<T>;

  void start(const Communicator& shards) {
    if (settings_.max_norm > 0) norm_.emplace(first_.view().size(), shards);
    set(settings_.lr, 0);
  }

  /// What is negative stays as it is.
  void set(double lr, index_t steps) {
    launch_range(execution_space{}, "halogen::adamw_schedule", 1, kernels::AdamWSet<T>{schedule_.data(), lr, steps});
  }

  static std::size_t next_identity() {
    static std::size_t made = 0;
    return ++made;
  }

  AdamW settings_;
  std::size_t identity_ = next_identity();
  Parameters<ModelType, T, P> first_, second_;
  std::optional<GradientNorm> norm_;
  detail::Lasting<Kokkos::View<Schedule[1], memory_space>> schedule_{"halogen::adamw_schedule"};
};

}  // namespace halogen
