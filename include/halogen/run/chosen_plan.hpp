// A plan that is made of another one while the program runs: some of its tensors are computed again instead of kept.
// And the search for such plans: of all that were tried, those that no other one beats both in time and in memory.
#pragma once

#include <memory>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/plan/recompute.hpp"
#include "halogen/run/level_layout.hpp"

namespace halogen {

/// Made from a plan that outlives it. Not copied: views look into it.
class ChosenPlan {
 public:
  ChosenPlan(const Plan& of, const GrowingTable<bool>& keep);
  ChosenPlan(const ChosenPlan&) = delete;
  ChosenPlan& operator=(const ChosenPlan&) = delete;

  const Plan& plan() const { return view_; }
  /// The number that a launch, or what it copies, has in the plan that this one was made of.
  int former(int launch) const { return former_[launch]; }
  /// Launches that run again.
  int again() const;

  double more_work = 0;               ///< what they compute, as a share of what the whole plan did
  std::size_t tensors = 0, kept = 0;  ///< MemoryUse::tensors and kept of the plan that keeps all

 private:
  PlanDraft draft_;
  GrowingTable<int> former_;
  Plan view_;
};

namespace detail {

/// One way to run a plan: the tensors that stay. Work and bytes are of all ranks together, so that all ranks make the
/// same list.
struct PlanChoice {
  GrowingTable<bool> keep;
  double work = 0;  ///< of the launches that run again, as a share of the plan's
  double peak = 0;  ///< bytes of the stored tensors that live together at most
};

/// What computing a launch once costs, in bytes that are moved and multiplications weighed as bytes.
double work_of(const Plan& plan, const Launch& launch, const std::vector<LevelLayout>& levels);

/// By work, each with less memory than the one before. The first keeps all. The list does not depend on any limit.
std::vector<PlanChoice> plan_choices(const Plan& plan, const std::vector<LevelLayout>& levels);

}  // namespace detail

#if HALOGEN_BODIES
HALOGEN_INLINE ChosenPlan::ChosenPlan(const Plan& of, const GrowingTable<bool>& keep)
    : draft_(of), former_(recompute(draft_, keep)), view_(draft_) {}

HALOGEN_INLINE int ChosenPlan::again() const {
  int count = 0;
  for (int i = view_.first_backward; i < view_.launches.size(); ++i) count += former_[i] < view_.first_backward;
  return count;
}

namespace detail {

HALOGEN_INLINE double work_of(const Plan& plan, const Launch& launch, const std::vector<LevelLayout>& levels) {
  constexpr double multiplications_a_byte = 8;  // that a machine makes while it moves a byte
  const auto points = [&](int level) {
    const LevelLayout& of = levels[static_cast<std::size_t>(level)];
    return of.whole ? 1. : static_cast<double>(of.points());
  };
  const auto bytes = [&](TensorId tensor) {
    const StoredTensor& of = plan.tensors[tensor];
    return of.map >= 0 ? 0. : 4. * of.channels * points(of.level);
  };
  double work = launch.output >= 0 ? bytes(launch.output) : 0;
  plan.for_each_read(launch, [&](TensorId tensor) { work += bytes(tensor); });
  double weights = 0;
  for (const ParameterUse& use : launch.parameters)
    weights += static_cast<double>(plan.graph.parameters[use.parameter].count);
  return work + weights * points(launch.level) / multiplications_a_byte;
}

/// Tries plans of one kind.
class PlanSearch {
 public:
  PlanSearch(const Plan& plan, const std::vector<LevelLayout>& levels) : plan_(plan), levels_(levels), draft_(plan) {
    for (const Launch& launch : plan.launches) all_work_ += work_of(plan, launch, levels);
    keep_all_ = GrowingTable<bool>(plan.tensors.size());
    for (bool& keep : keep_all_) keep = true;
    const GrowingTable<bool> can_be_dropped = droppable_tensors(draft_);
    for (int t = 0; t < plan.tensors.size(); ++t)
      if (can_be_dropped[t] && plan.tensors[t].last_launch >= plan.first_backward) droppable_.push_back(t);
    std::ranges::stable_sort(droppable_, std::ranges::greater{}, [&](int t) { return bytes_of(plan.tensors[t]); });
  }

  /// All sets of the largest tensors, and from several of them on one tensor after the other.
  std::vector<PlanChoice> run() {
    constexpr std::size_t most_tried = 10;
    const std::size_t tried = std::min(most_tried, droppable_.size());
    for (std::size_t set = 0; set < std::size_t{1} << tried; ++set) {
      GrowingTable<bool> keep = keep_all_;
      for (std::size_t i = 0; i < tried; ++i)
        if ((set >> i & 1) != 0) keep[droppable_[i]] = false;
      take(keep);
    }
    if (droppable_.size() > most_tried) {
      descend(keep_all_);
      for (const PlanChoice& choice : front()) descend(choice.keep);
    }
    return front();
  }

 private:
  double bytes_of(const StoredTensor& tensor) const {
    const LevelLayout& level = levels_[static_cast<std::size_t>(tensor.level)];
    return tensor.map >= 0 || tensor.external
               ? 0.
               : tensor.channels * (level.whole ? 1. : static_cast<double>(level.points()));
  }

  /// Notes a plan, and returns it.
  PlanChoice take(const GrowingTable<bool>& keep) {
    PlanDraft draft(plan_);
    const GrowingTable<int> former = recompute(draft, keep);
    PlanChoice choice{keep};
    for (int i = draft.first_backward; i < draft.launches.size(); ++i)
      if (former[i] < draft.first_backward)
        choice.work += work_of(plan_, plan_.launches[former[i]], levels_) / all_work_;
    std::vector<double> change(static_cast<std::size_t>(draft.launches.size()) + 2);
    for (const StoredTensor& tensor : draft.tensors) {
      if (tensor.first_launch < 0) continue;
      change[static_cast<std::size_t>(tensor.first_launch)] += bytes_of(tensor);
      change[static_cast<std::size_t>(tensor.last_launch) + 1] -= bytes_of(tensor);
    }
    double live = 0;
    for (const double one : change) live += one, choice.peak = std::max(choice.peak, live);
    tried_.push_back(choice);
    return choice;
  }

  /// Drops one tensor after the other: always the one that saves the most for its work.
  void descend(const GrowingTable<bool>& from) {
    constexpr int most_idle = 4;
    constexpr std::size_t most_compared = 24;
    PlanChoice now = take(from);
    for (int idle = 0; idle < most_idle;) {
      PlanChoice best;
      double most = -1;
      std::size_t compared = 0;
      for (const int tensor : droppable_) {
        if (!now.keep[tensor] || compared == most_compared) continue;
        ++compared;
        GrowingTable<bool> keep = now.keep;
        keep[tensor] = false;
        PlanChoice next = take(keep);
        const double saved = (now.peak - next.peak) / std::max(next.work - now.work, 1e-9);
        if (next.peak <= now.peak && saved > most) most = saved, best = std::move(next);
      }
      if (most < 0) return;
      idle = best.peak < now.peak ? 0 : idle + 1;
      now = std::move(best);
    }
  }

  /// Those of the plans that were tried which no other one beats.
  std::vector<PlanChoice> front() {
    std::ranges::stable_sort(tried_, {}, [](const PlanChoice& choice) { return std::pair(choice.work, choice.peak); });
    std::vector<PlanChoice> best;
    for (PlanChoice& choice : tried_)
      if (best.empty() || choice.peak < best.back().peak) best.push_back(std::move(choice));
    tried_ = best;
    return best;
  }

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
  PlanDraft draft_;
  double all_work_ = 0;
  GrowingTable<bool> keep_all_;
  std::vector<int> droppable_;  ///< the largest first
  std::vector<PlanChoice> tried_;
};

HALOGEN_INLINE std::vector<PlanChoice> plan_choices(const Plan& plan, const std::vector<LevelLayout>& levels) {
  return PlanSearch(plan, levels).run();
}

}  // namespace detail
#endif

}  // namespace halogen
