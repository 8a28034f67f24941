// The schedule of the learning rate in a checkpoint: its kind and its numbers. A trainer with another schedule is
// refused, because a run that goes on by other rates than it began with would end elsewhere and say nothing.
//
// In a folder's manifest it is JSON, {"shape": "cosine", "steps": 10000, "warmup": 500, "floor": 0.0}; in one file the
// tensor optimizer.schedule, F64 of seven numbers. Checkpoints of before have neither: any schedule goes on from them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/rate_schedule.hpp"

namespace halogen {

/// How a checkpoint is loaded. new_schedule: by the trainer's schedule, also where the checkpoint's is another. The
/// number of steps is the checkpoint's: a schedule of 20000 steps goes on from step 5000 at its own rate of that step.
struct LoadOptions {
  bool new_schedule = false;
};

namespace detail {

inline constexpr const char* schedule_name = "optimizer.schedule";
inline constexpr const char* schedule_shapes[] = {"constant", "step", "linear", "cosine", "one_cycle"};

/// The numbers that a schedule's kind reads, and no others: two schedules are the same where these are equal.
inline nlohmann::ordered_json json_of(const RateSchedule& schedule) {
  using Shape = RateSchedule::Shape;
  nlohmann::ordered_json json{{"shape", schedule_shapes[static_cast<int>(schedule.shape)]}};
  const bool ends = schedule.shape != Shape::constant && schedule.shape != Shape::step;
  if (ends) json["steps"] = schedule.steps;
  if (schedule.shape == Shape::one_cycle)
    json["warmup"] = schedule.rise;
  else
    json["warmup"] = schedule.warmup;
  if (schedule.shape == Shape::step) json["every"] = schedule.every, json["gamma"] = schedule.gamma;
  if (ends) json["floor"] = schedule.floor;
  if (schedule.shape == Shape::one_cycle) json["start"] = schedule.start;
  return json;
}

/// The tensor's numbers: shape, steps, warmup (one_cycle: rise), every, gamma, floor, start.
inline std::vector<double> schedule_numbers(const RateSchedule& schedule) {
  return {static_cast<double>(schedule.shape),
          static_cast<double>(schedule.steps),
          schedule.shape == RateSchedule::Shape::one_cycle ? schedule.rise : static_cast<double>(schedule.warmup),
          static_cast<double>(schedule.every),
          schedule.gamma,
          schedule.floor,
          schedule.start};
}
/// Nothing where they are no schedule's.
inline std::optional<RateSchedule> schedule_of(const std::vector<double>& numbers) {
  constexpr double most = 9e15;  // whole numbers that a double holds
  if (numbers.size() != 7) return std::nullopt;
  for (int i = 0; i < 4; ++i)
    if (!(numbers[static_cast<std::size_t>(i)] >= 0 && numbers[static_cast<std::size_t>(i)] <= most))
      return std::nullopt;
  if (numbers[0] > 4) return std::nullopt;
  const auto whole = [&](std::size_t i) { return static_cast<index_t>(numbers[i]); };
  RateSchedule schedule{
      static_cast<RateSchedule::Shape>(whole(0)), whole(1), whole(2), whole(3), numbers[4], numbers[5], numbers[6]};
  if (schedule.shape == RateSchedule::Shape::one_cycle) schedule.warmup = 0, schedule.rise = numbers[2];
  return schedule;
}

/// Throws Error where a checkpoint's schedule, null where it has none, is not the trainer's.
inline void refuse_other_schedule(const std::string& checkpoint, const nlohmann::ordered_json& stored,
                                  const RateSchedule& own, const LoadOptions& options) {
  if (stored.is_null() || options.new_schedule || stored == json_of(own)) return;
  throw Error("'" + checkpoint + "' is of a run with the schedule " + stored.dump() + ", but the trainer's is " +
              json_of(own).dump() + ": give the trainer that schedule, or load with {.new_schedule = true}");
}

}  // namespace detail

}  // namespace halogen
