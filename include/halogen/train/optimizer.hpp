// Optimisers: one kernel over the flat parameters, with torch.optim's settings and names.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/why.hpp"
#include "halogen/kernels/training/layer_scales.hpp"
#include "halogen/train/gradient_norm.hpp"
#include "halogen/train/layer_scales.hpp"
#include "halogen/train/parameters/parameter_groups.hpp"

namespace halogen {

/// Settings, with torch.optim.AdamW's defaults; OptimizerState holds the moments. A positive max_norm clips the
/// gradient before each step to that norm over all parameters, as torch.nn.utils.clip_grad_norm_; then a positive
/// max_value each of its components, as clip_grad_value_. schedule: core/rate_schedule.hpp.
struct AdamW {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "AdamW";
  static constexpr const char* moment_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return 2; }
  template <class T>
  kernels::AdamRule<T> rule() const {
    return kernels::AdamRule<T>::of(beta1, beta2, eps, false);
  }
};

/// torch.optim.Adam: weight decay is part of the gradient.
struct Adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "Adam";
  static constexpr const char* moment_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return 2; }
  template <class T>
  kernels::AdamRule<T> rule() const {
    return kernels::AdamRule<T>::of(beta1, beta2, eps, true);
  }
};

/// torch.optim.SGD. No memory beside the parameters where momentum is 0.
struct SGD {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, max_norm = 0, max_value = 0;
  bool nesterov = false;
  RateSchedule schedule{};

  static constexpr const char* name = "SGD";
  static constexpr const char* moment_names[] = {"momentum_buffer"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return momentum > 0 ? 1 : 0; }
  template <class T>
  kernels::MomentumRule<T> rule() const {
    return {static_cast<T>(momentum), static_cast<T>(1 - dampening), nesterov};
  }
};

/// Lion (Chen et al., NeurIPS 2023), with the defaults of its authors.
struct Lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "Lion";
  static constexpr const char* moment_names[] = {"exp_avg"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return 1; }
  template <class T>
  kernels::LionRule<T> rule() const {
    return {static_cast<T>(beta1), static_cast<T>(beta2)};
  }
};

/// LAMB (You et al., ICLR 2020): AdamW's step, for each tensor times |p| / |step|, the norms over the tensor; 1 where
/// either is 0. With shards one all_reduce of two numbers a tensor.
struct LAMB {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 1e-2, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "LAMB";
  static constexpr const char* moment_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool scales_by_layer = true;
  int moments() const { return 2; }
  template <class T>
  kernels::LambRule<T> rule() const {
    return {kernels::AdamRule<T>::of(beta1, beta2, eps, false)};
  }
};

/// torch.optim.RMSprop, not centered. No second moment where momentum is 0.
struct RMSprop {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, momentum = 0, weight_decay = 0, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "RMSprop";
  static constexpr const char* moment_names[] = {"square_avg", "momentum_buffer"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return momentum > 0 ? 2 : 1; }
  template <class T>
  kernels::RmsRule<T> rule() const {
    return {static_cast<T>(alpha), static_cast<T>(1 - alpha), static_cast<T>(eps), static_cast<T>(momentum)};
  }
};

/// torch.optim.Adagrad, whose sums start with 0.
struct Adagrad {
  double lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, max_norm = 0, max_value = 0;
  RateSchedule schedule{};

  static constexpr const char* name = "Adagrad";
  static constexpr const char* moment_names[] = {"sum"};
  static constexpr bool scales_by_layer = false;
  int moments() const { return 1; }
  template <class T>
  kernels::AdagradRule<T> rule() const {
    return {lr_decay, static_cast<T>(eps)};
  }
};

/// Settings of an optimiser: those above, or a user's of the same form.
template <class X>
concept OptimizerSettings = requires(const X& settings) {
  X::name, X::moment_names;
  settings.lr, settings.weight_decay, settings.schedule;
  settings.template rule<double>();
};

namespace detail {
[[noreturn]] inline void refuse_setting(const char* optimizer, const char* name, double value, const char* wanted) {
  throw CollectiveError(std::string(optimizer) + ": " + name + " = " + number_text(value) + ": give " + wanted);
}
inline void expect_positive(const char* optimizer, const char* name, double value) {
  if (!(value >= 0 && std::isfinite(value))) refuse_setting(optimizer, name, value, "a finite number of 0 or more");
}
inline void expect_share(const char* optimizer, const char* name, double value) {
  if (!(value >= 0 && value < 1)) refuse_setting(optimizer, name, value, "0 or more and less than 1");
}
void check_schedule(const char* optimizer, const RateSchedule& schedule);
#if HALOGEN_BODIES
HALOGEN_INLINE void check_schedule(const char* optimizer, const RateSchedule& schedule) {
  expect_positive(optimizer, "warmup of its schedule", static_cast<double>(schedule.warmup));
  expect_positive(optimizer, "gamma of its schedule", schedule.gamma);
  expect_positive(optimizer, "floor of its schedule", schedule.floor);
  expect_positive(optimizer, "start of its schedule", schedule.start);
  if (schedule.every < 1)
    refuse_setting(optimizer, "steps after which its schedule falls", static_cast<double>(schedule.every), "1 or more");
  if (schedule.shape == RateSchedule::Shape::one_cycle &&
      !(schedule.rise >= 0 && schedule.rise <= static_cast<double>(schedule.steps)))
    refuse_setting(optimizer, "pct_start * steps of its schedule", schedule.rise,
                   "a pct_start of 0 to 1, which is a share of the steps");
  const bool ends = schedule.shape != RateSchedule::Shape::constant && schedule.shape != RateSchedule::Shape::step;
  if (ends && schedule.steps <= schedule.warmup)
    throw CollectiveError(std::string(optimizer) + ": its schedule ends after " + std::to_string(schedule.steps) +
                          " steps, and its warm-up after " + std::to_string(schedule.warmup) +
                          ": give a schedule with more steps than its warm-up");
}
#endif
}  // namespace detail

/// Throws CollectiveError for settings with which a step would go astray, as torch.optim refuses them.
template <OptimizerSettings Optimizer>
const Optimizer& checked(const Optimizer& settings) {
  constexpr const char* name = Optimizer::name;
  detail::expect_positive(name, "lr", settings.lr);
  if constexpr (requires { settings.eps; }) detail::expect_positive(name, "eps", settings.eps);
  detail::expect_positive(name, "weight_decay", settings.weight_decay);
  detail::expect_positive(name, "max_norm", settings.max_norm);
  detail::expect_positive(name, "max_value", settings.max_value);
  if constexpr (requires { settings.beta1; }) {
    detail::expect_share(name, "beta1", settings.beta1);
    detail::expect_share(name, "beta2", settings.beta2);
  }
  if constexpr (requires { settings.alpha; }) detail::expect_share(name, "alpha", settings.alpha);
  if constexpr (requires { settings.lr_decay; }) detail::expect_positive(name, "lr_decay", settings.lr_decay);
  if constexpr (requires { settings.momentum; }) {
    detail::expect_positive(name, "momentum", settings.momentum);
  }
  if constexpr (requires { settings.nesterov; }) {
    if (settings.nesterov && !(settings.momentum > 0 && settings.dampening == 0))
      detail::refuse_setting(name, "nesterov with momentum", settings.momentum, "a positive momentum, and dampening 0");
  }
  detail::check_schedule(name, settings.schedule);
  return settings;
}

/// Moments of an optimiser for one model, placed as its parameters. step() emits no communication, but one all_reduce
/// of one number where shards are clipped, and LAMB's. Throws CollectiveError for settings that are none, and for
/// parameters that are sharded otherwise than those it was made for.
template <class ModelType, class T, Placement P = Replicate, class Optimizer = AdamW>
class OptimizerState {
  static_assert(OptimizerSettings<Optimizer>,
                "AdamW, Adam, SGD, RMSprop, Adagrad, Lion, LAMB, or settings of that form");
  using Held = Parameters<ModelType, T, P>;
  using Rule = decltype(std::declval<const Optimizer&>().template rule<T>());

 public:
  using settings_type = Optimizer;

  explicit OptimizerState(Optimizer settings)
    requires std::is_same_v<P, Replicate>
      : OptimizerState(settings, Held("halogen::moments")) {}
  OptimizerState(Optimizer settings, const Held& parameters, OptimizerOptions options = {})
      : settings_(checked(settings)), groups_(parameters, options.groups, Optimizer::scales_by_layer) {
    constexpr const char* labels[] = {"halogen::first_moment", "halogen::second_moment"};
    for (int i = 0; i < settings_.moments(); ++i) moments_.push_back(parameters.zeros(labels[i]));
    if (options.average > 0) {
      detail::expect_share(Optimizer::name, "average", options.average);
      renewed_ = 1 - options.average;
      average_.emplace(parameters.zeros("halogen::average"));
    }
    if constexpr (Optimizer::scales_by_layer) scales_.emplace(parameters, groups_.tensors_of_values());
    if constexpr (!std::is_same_v<P, Replicate>) like_ = parameters;
    if (settings_.max_norm > 0) norm_.emplace(parameters.trained_values(), detail::shards_of(parameters));
    set(settings_.lr, 0);
  }
  OptimizerState(OptimizerState&&) = default;
  OptimizerState& operator=(OptimizerState&&) = default;

  /// parameters -= update of the gradient, which is placed as they are. Nothing is updated where *loss_weight, if there
  /// is one, is not positive.
  void step(const Held& parameters, const Held& gradient, const double* loss_weight = nullptr) {
    if (like_ && (!parameters.is_laid_out_as(*like_) || !gradient.is_laid_out_as(*like_)))
      throw CollectiveError(std::string(Optimizer::name) +
                            ": the parameters or their gradient are sharded otherwise than those that its moments "
                            "were made for: make the OptimizerState from these parameters");
    const execution_space space;
    const double* square = norm_ ? norm_->square(space, gradient.data(), gradient.trained_values()) : nullptr;
    const Rule rule = settings_.template rule<T>();
    launch_range(space, "halogen::optimizer_schedule", 1,
                 kernels::OptimizerAdvance<T, Rule>{schedule_.data(), rule, settings_.schedule, groups_.factors(),
                                                    settings_.weight_decay, loss_weight, square, settings_.max_norm});
    kernels::OptimizerStep<T, Rule> kernel{parameters.data(),
                                           gradient.data(),
                                           moments_.size() > 0 ? moments_[0].data() : nullptr,
                                           moments_.size() > 1 ? moments_[1].data() : nullptr,
                                           schedule_.data(),
                                           rule,
                                           groups_.tensor_of_value(),
                                           groups_.group_of_tensor(),
                                           static_cast<T>(settings_.max_value),
                                           average_ ? average_->data() : nullptr,
                                           static_cast<T>(renewed_),
                                           nullptr,
                                           parameters.trained_values()};
    if constexpr (Optimizer::scales_by_layer) kernel.direction = scales_->direction();
    launch_range(space, "halogen::optimizer", kernel.items(), kernel);
    if constexpr (Optimizer::scales_by_layer) scales_->step(space, kernel, parameters.trained_values());
  }
  template <class Why = why::gradient_is_partial>
  void step(const Held& parameters, const Parameters<ModelType, T, Partial<Sum>>& gradient) = delete;

  /// Sets the learning rate of all following steps, captured ones too, without a wait. The schedule multiplies it.
  /// Every rank must pass the same value. Throws CollectiveError if lr is negative or not finite.
  void set_learning_rate(double lr) {
    Optimizer settings = settings_;
    settings.lr = lr;
    settings_ = checked(settings);
    set(lr, -1);
  }
  /// The learning rate of the next step. Waits for the device if there is a schedule.
  double learning_rate() const {
    const RateSchedule& schedule = settings_.schedule;
    if (schedule.shape == RateSchedule::Shape::constant && schedule.warmup == 0) return settings_.lr;
    return settings_.lr * schedule.factor(steps());
  }
  const Optimizer& settings() const { return settings_; }

  /// Updates so far; waits for the device.
  index_t steps() const { return host_copy(Kokkos::View<const Schedule*, memory_space>(schedule_))[0].t; }

  /// The same, where kernels read it.
  const index_t* steps_on_device() const { return &schedule_.data()->t; }

  /// torch's moments in the order of Optimizer::moment_names. Copies share their memory: what is copied into one is the
  /// state's.
  int moments() const { return static_cast<int>(moments_.size()); }
  const Held& moment(int i) const { return moments_.at(static_cast<std::size_t>(i)); }
  const Held& first_moment() const { return moment(0); }
  const Held& second_moment() const { return moment(1); }
  /// The moving average of the parameters that are trained, where OptimizerOptions::average asks for one; null else.
  const Held* average() const { return average_ ? &*average_ : nullptr; }

  /// Continues as after so many steps, which made the moments that it now has.
  void set_steps(index_t steps) {
    if (steps < 0)
      throw CollectiveError(std::string(Optimizer::name) + ": " + std::to_string(steps) + " steps: give 0 or more");
    set(-1, steps);
  }

  /// A number unique to this state, so that a holder of its pointers can tell whether it is still the same state.
  std::size_t identity() const { return identity_; }

  /// Bytes of the moments and of the average.
  std::size_t bytes() const {
    std::size_t values = average_ ? average_->view().size() : 0;
    for (const Held& moment : moments_) values += moment.view().size();
    return values * sizeof(T);
  }

 private:
  using Schedule = kernels::OptimizerSchedule<T>;

  /// Negative arguments leave the value unchanged.
  void set(double lr, index_t steps) {
    launch_range(execution_space{}, "halogen::optimizer_schedule", 1,
                 kernels::OptimizerSet<T>{schedule_.data(), lr, steps});
  }

  static std::size_t next_identity() {
    static std::size_t made = 0;
    return ++made;
  }

  Optimizer settings_;
  std::size_t identity_ = next_identity();
  GroupsOfParameters<ModelType, T, P> groups_;
  std::vector<Held> moments_;
  std::optional<Held> like_;  ///< the parameters that it was made for, where they are sharded
  std::optional<Held> average_;
  double renewed_ = 0;
  std::optional<GradientNorm> norm_;
  std::optional<LayerScales<ModelType, T, P>> scales_;
  detail::Lasting<Kokkos::View<Schedule[1], memory_space>> schedule_{"halogen::optimizer_schedule"};
};

template <class Optimizer, class ModelType, class T, class P>
OptimizerState(Optimizer, Parameters<ModelType, T, P>) -> OptimizerState<ModelType, T, P, Optimizer>;
template <class Optimizer, class ModelType, class T, class P>
OptimizerState(Optimizer, Parameters<ModelType, T, P>, OptimizerOptions) -> OptimizerState<ModelType, T, P, Optimizer>;

}  // namespace halogen
