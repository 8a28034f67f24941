// Schedules of the learning rate: a factor by the number of the step, as a value that kernels evaluate, so that a
// checkpoint which holds the number of steps remembers it, and a captured step follows it.
#pragma once

#include <cmath>

#include "halogen/core/config.hpp"

namespace halogen {

/// Made by the functions below. factor(t) multiplies the learning rate of the step that follows t steps.
struct RateSchedule {
  enum class Shape { constant, step, linear, cosine, one_cycle };
  Shape shape = Shape::constant;
  index_t steps = 1;   ///< until it ends, the warm-up included
  index_t warmup = 0;  ///< steps in which it rises to 1
  index_t every = 1;   ///< step: after so many
  double gamma = 1;    ///< step: by which it falls
  double floor = 0;    ///< linear, cosine, one_cycle: where it ends
  double start = 1;    ///< one_cycle: where it begins
  double rise = 0;     ///< one_cycle: steps in which it rises, which need not be whole

  HALOGEN_FUNCTION double factor(index_t t) const {
    constexpr double pi = 3.14159265358979323846;
    const auto cosine = [&](double from, double to, double share) {
      return to + (from - to) / 2 * (1 + std::cos(pi * share));
    };
    if (shape == Shape::one_cycle) {
      const double at = static_cast<double>(t), top = rise - 1, end = static_cast<double>(steps - 1);
      if (at <= top) return cosine(start, 1, top > 0 ? at / top : 1);
      return cosine(1, floor, at < end ? (at - top) / (end - top) : 1);
    }
    if (t < warmup) return static_cast<double>(t + 1) / static_cast<double>(warmup);
    const index_t past = t - warmup, whole = steps - warmup;
    const double share = past < whole ? static_cast<double>(past) / static_cast<double>(whole) : 1;
    switch (shape) {
      case Shape::step:
        return std::pow(gamma, static_cast<double>(past / (every > 0 ? every : 1)));  // optimisers refuse 0
      case Shape::linear:
        return 1 + (floor - 1) * share;
      case Shape::cosine:
        return cosine(1, floor, share);
      default:
        return 1;
    }
  }
};

/// warmup: steps in which the rate rises to lr; floor: the share of lr at the end, and behind it.
struct ScheduleOptions {
  index_t warmup = 0;
  double floor = 0;
};

/// lr, behind a warm-up.
constexpr RateSchedule constant_rate(ScheduleOptions options = {}) { return {.warmup = options.warmup}; }
/// lr times gamma every so many steps, as torch.optim.lr_scheduler.StepLR.
constexpr RateSchedule step_rate(index_t every, double gamma, ScheduleOptions options = {}) {
  return {.shape = RateSchedule::Shape::step, .warmup = options.warmup, .every = every, .gamma = gamma};
}
/// From lr to floor * lr in `steps` steps, the warm-up included; in a straight line.
constexpr RateSchedule linear_rate(index_t steps, ScheduleOptions options = {}) {
  return {.shape = RateSchedule::Shape::linear, .steps = steps, .warmup = options.warmup, .floor = options.floor};
}
/// The same along half a cosine, as CosineAnnealingLR with T_max = steps - warmup.
constexpr RateSchedule cosine_rate(index_t steps, ScheduleOptions options = {}) {
  return {.shape = RateSchedule::Shape::cosine, .steps = steps, .warmup = options.warmup, .floor = options.floor};
}
/// From lr / div_factor to lr and down to lr / div_factor / final_div_factor, as OneCycleLR with its defaults; lr is
/// its max_lr. The top is at step pct_start * steps - 1, which may lie between two steps. Momentum stays.
struct OneCycleOptions {
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
};
constexpr RateSchedule one_cycle_rate(index_t steps, OneCycleOptions options = {}) {
  return {.shape = RateSchedule::Shape::one_cycle,
          .steps = steps,
          .floor = 1 / (options.div_factor * options.final_div_factor),
          .start = 1 / options.div_factor,
          .rise = options.pct_start * static_cast<double>(steps)};
}

}  // namespace halogen
