// A plan that is made of another one while the program runs: some of its tensors are computed again instead of kept.
// And the search for such plans: of all that were tried, those that no other one beats both in time and in memory.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/plan/recompute.hpp"
#include "halogen/run/level_layout.hpp"

namespace halogen {

/// Made from a plan that outlives it. Not copied: views look into it.
class ChosenPlan {
 public:
  ChosenPlan(const Plan& of, const std::vector<bool>& keep);
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
  std::vector<bool> keep;
  double work = 0;  ///< of the launches that run again, as a share of the plan's
  double peak = 0;  ///< values of the stored tensors that live together at most
};

/// What a choice of tensors costs, without making the plan: it goes through the launches as Recompute does.
class PlanTrial {
 public:
  /// work: of each launch.
  PlanTrial(const Plan& plan, std::vector<double> work);

  /// Tries a choice. Afterwards work() is that of the launches that run again, and peak(sizes) the most that the stored
  /// tensors take together, where sizes has what each of them takes.
  void run(const std::vector<bool>& keep);
  double work() const { return more_work_; }
  double peak(const std::vector<double>& sizes) const;

 private:
  struct Life {
    int first = -1, last = -1;
  };
  bool is_dropped(int tensor) const {  // a second tensor goes with the first
    return !(*keep_)[static_cast<std::size_t>(output_with_[static_cast<std::size_t>(tensor)])];
  }
  void compute_again(int tensor);
  void use(int launch);
  Life& life_of(int tensor) { return (is_dropped(tensor) ? copies_ : lives_)[static_cast<std::size_t>(tensor)]; }

  const Plan& plan_;
  std::vector<double> work_of_launch_;
  std::vector<std::vector<int>> reads_, writers_;  ///< tensors of each launch; forward launches of each tensor
  std::vector<int> output_with_;                   ///< for a launch's second tensor: the first; else itself
  std::vector<bool> read_backward_;
  std::vector<Life> forward_lives_;
  // of the choice that is tried
  const std::vector<bool>* keep_ = nullptr;
  std::vector<Life> lives_, copies_;
  int now_ = 0;
  double more_work_ = 0;
};

/// What computing a launch once costs, in bytes that are moved and multiplications weighed as bytes.
double work_of(const Plan& plan, const Launch& launch, const std::vector<LevelLayout>& levels);

/// By work, each with less memory than the one before. The first keeps all. The list does not depend on any limit.
std::vector<PlanChoice> plan_choices(const Plan& plan, const std::vector<LevelLayout>& levels);

}  // namespace detail

#if HALOGEN_BODIES
HALOGEN_INLINE ChosenPlan::ChosenPlan(const Plan& of, const std::vector<bool>& keep) : draft_(of) {
  GrowingTable<bool> table;
  for (const bool one : keep) table.push(one);
  former_ = recompute(draft_, table);
  view_ = draft_;
}

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

HALOGEN_INLINE PlanTrial::PlanTrial(const Plan& plan, std::vector<double> work)
    : plan_(plan),
      work_of_launch_(std::move(work)),
      reads_(static_cast<std::size_t>(plan.launches.size())),
      writers_(static_cast<std::size_t>(plan.tensors.size())),
      output_with_(writers_.size()),
      read_backward_(writers_.size()),
      forward_lives_(writers_.size()) {
  std::iota(output_with_.begin(), output_with_.end(), 0);
  const auto see = [&](int tensor, int launch) {
    Life& life = forward_lives_[static_cast<std::size_t>(tensor)];
    life.last = launch;
    return &life;
  };
  for (int i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    std::vector<int>& reads = reads_[static_cast<std::size_t>(i)];
    plan.for_each_read(launch, [&](TensorId tensor) {
      if (std::ranges::find(reads, tensor.number) == reads.end()) reads.push_back(tensor.number);
      if (i >= plan.first_backward) read_backward_[static_cast<std::size_t>(tensor.number)] = true;
    });
    if (i >= plan.first_backward) continue;
    for (const TensorId written : {launch.output, launch.kept})
      if (written >= 0)
        if (Life* const life = see(written.number, i); life->first < 0) life->first = i;
    for (const int tensor : reads) see(tensor, i);
    if (launch.output >= 0) writers_[static_cast<std::size_t>(launch.output.number)].push_back(i);
    if (launch.kept >= 0) output_with_[static_cast<std::size_t>(launch.kept.number)] = launch.output.number;
  }
}

HALOGEN_INLINE void PlanTrial::run(const std::vector<bool>& keep) {
  keep_ = &keep;
  lives_ = forward_lives_;
  copies_.assign(lives_.size(), Life{});
  now_ = plan_.first_backward;
  more_work_ = 0;
  for (int i = plan_.first_backward; i < plan_.launches.size(); ++i) {
    use(i);
    const Launch& launch = plan_.launches[i];
    for (const TensorId written : {launch.output, launch.kept}) {
      if (written < 0) continue;
      Life& life = lives_[static_cast<std::size_t>(written.number)];
      if (life.first < 0) life.first = now_;
      life.last = now_;
    }
    ++now_;
  }
  for (const auto* results : {&plan_.prediction[0], &plan_.input_gradient[0]})
    for (int i = 0; i < (results == &plan_.prediction[0] ? most_outputs : most_inputs); ++i)
      if (results[i] >= 0) lives_[static_cast<std::size_t>(results[i].number)].last = now_;
}

/// What the launch reads is there now, and lives until now.
HALOGEN_INLINE void PlanTrial::use(int launch) {
  for (const int tensor : reads_[static_cast<std::size_t>(launch)])
    if (is_dropped(tensor) && copies_[static_cast<std::size_t>(tensor)].first < 0) compute_again(tensor);
  for (const int tensor : reads_[static_cast<std::size_t>(launch)]) life_of(tensor).last = now_;
}

HALOGEN_INLINE void PlanTrial::compute_again(int tensor) {
  tensor = output_with_[static_cast<std::size_t>(tensor)];
  Life& copy = copies_[static_cast<std::size_t>(tensor)];
  copy.first = now_;  // so that a launch that adds to it does not ask for it
  bool is_first = true;
  for (const int writer : writers_[static_cast<std::size_t>(tensor)]) {
    use(writer);
    if (std::exchange(is_first, false)) copy.first = now_;
    copy.last = now_;
    if (const TensorId kept = plan_.launches[writer].kept;
        kept >= 0 && read_backward_[static_cast<std::size_t>(kept.number)])
      copies_[static_cast<std::size_t>(kept.number)] = {now_, now_};
    more_work_ += work_of_launch_[static_cast<std::size_t>(writer)];
    ++now_;
  }
}

HALOGEN_INLINE double PlanTrial::peak(const std::vector<double>& sizes) const {
  std::vector<double> change(static_cast<std::size_t>(now_) + 2);
  for (const auto* lives : {&lives_, &copies_})
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const Life& life = (*lives)[t];
      if (life.first < 0) continue;
      change[static_cast<std::size_t>(life.first)] += sizes[t];
      change[static_cast<std::size_t>(life.last) + 1] -= sizes[t];
    }
  double live = 0, most = 0;
  for (const double one : change) live += one, most = std::max(most, live);
  return most;
}

/// Tries plans of one kind.
class PlanSearch {
 public:
  PlanSearch(const Plan& plan, const std::vector<LevelLayout>& levels) : trial_(plan, work_of_launches(plan, levels)) {
    const GrowingTable<bool> can_be_dropped = droppable_tensors(PlanDraft(plan));
    for (int t = 0; t < plan.tensors.size(); ++t) {
      const StoredTensor& tensor = plan.tensors[t];
      const LevelLayout& level = levels[static_cast<std::size_t>(tensor.level)];
      const bool has_memory = tensor.map < 0 && !tensor.external;
      sizes_.push_back(has_memory ? tensor.channels * (level.whole ? 1. : static_cast<double>(level.points())) : 0);
      if (can_be_dropped[t] && tensor.last_launch >= plan.first_backward)
        droppable_.push_back(static_cast<std::size_t>(t));
    }
    for (const double work : work_of_launches(plan, levels)) all_work_ += work;
    std::ranges::stable_sort(droppable_, std::ranges::greater{}, [&](std::size_t t) { return sizes_[t]; });
  }

  /// All sets of the largest tensors; and from some of the best on, one tensor after the other.
  std::vector<PlanChoice> run() {
    constexpr std::size_t most_tried = 12, most_begun = 4;
    const std::vector<bool> keep_all(sizes_.size(), true);
    const std::size_t tried = std::min(most_tried, droppable_.size());
    for (std::size_t set = 0; set < std::size_t{1} << tried; ++set) {
      std::vector<bool> keep = keep_all;
      for (std::size_t i = 0; i < tried; ++i)
        if ((set >> i & 1) != 0) keep[droppable_[i]] = false;
      take(keep);
    }
    const std::vector<PlanChoice> begun = front();
    if (droppable_.size() > most_tried)
      for (std::size_t i = 0; i < most_begun; ++i) descend(begun[i * (begun.size() - 1) / (most_begun - 1)].keep);
    return front();
  }

 private:
  static std::vector<double> work_of_launches(const Plan& plan, const std::vector<LevelLayout>& levels) {
    std::vector<double> work;
    for (const Launch& launch : plan.launches) work.push_back(work_of(plan, launch, levels));
    return work;
  }

  /// Notes a plan, and returns it.
  PlanChoice take(const std::vector<bool>& keep) {
    trial_.run(keep);
    tried_.push_back({keep, trial_.work() / all_work_, trial_.peak(sizes_)});
    return tried_.back();
  }

  /// Drops one tensor after the other: always the one that saves the most for its work.
  void descend(const std::vector<bool>& from) {
    constexpr int most_idle = 4;
    constexpr std::size_t most_compared = 24;
    PlanChoice now = take(from);
    for (int idle = 0; idle < most_idle;) {
      PlanChoice best;
      double most = -1;
      std::size_t compared = 0;
      for (const std::size_t tensor : droppable_) {
        if (!now.keep[tensor] || compared == most_compared) continue;
        ++compared;
        std::vector<bool> keep = now.keep;
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

  PlanTrial trial_;
  std::vector<double> sizes_;  ///< values of each tensor
  double all_work_ = 0;
  std::vector<std::size_t> droppable_;  ///< the largest first
  std::vector<PlanChoice> tried_;
};

HALOGEN_INLINE std::vector<PlanChoice> plan_choices(const Plan& plan, const std::vector<LevelLayout>& levels) {
  return PlanSearch(plan, levels).run();
}

}  // namespace detail
#endif

}  // namespace halogen
