// A limit for the memory of a rank, and the layout that keeps to it: of the plans that a search has found
// (run/chosen_plan.hpp) the one with the least work that fits.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "halogen/core/config.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/rank_sums.hpp"

namespace halogen {

/// Bytes: .memory_limit = 6 * hg::GiB.
inline constexpr std::size_t KiB = std::size_t{1} << 10, MiB = KiB << 10, GiB = MiB << 10;

/// What an evaluation may take. `bytes`: everything that Halogen holds on a rank, 0 for no limit. `held`: what is there
/// on this rank beside the evaluation (parameters, gradient, moments).
struct MemoryLimit {
  std::size_t bytes = 0, held = 0;
  bool operator==(const MemoryLimit&) const = default;
};

namespace detail {

/// Bytes that an evaluation of this layout holds on its rank. A prediction beside it shares the arena, but has halo
/// buffers of its own, which are no larger.
inline std::size_t held_by(const Layout& layout) {
  return layout.memory().total() + (layout.plan().training ? layout.memory().exchange : 0);
}

/// Where a plan is laid out: the arguments of a Layout.
struct PlanPlace {
  const Decomposition& pieces;
  int rank;
  std::span<const Cut> input;
  ValueBytes value_bytes;
};

/// The layout of the plan on this rank, within the limit. Without a limit, or where all fits, it is that of the plan as
/// it is. Else some tensors are computed again. Time and memory are monotone in the limit, and all ranks choose alike.
/// `ranks`: all that run the plan, null for a mesh that is dry, of which this rank's piece decides. staging(layout):
/// bytes of gathered parameters. Collective: one all_reduce, some more where not all fits. Throws CollectiveError, the
/// same on all ranks, if no plan fits: with the least that is possible, the launch that needs it, and how many ranks
/// would do.
Layout layout_within(const MemoryLimit& limit, const Communicator& ranks, const Plan& plan, const PlanPlace& place,
                     const std::function<std::size_t(const Layout&)>& staging);

#if HALOGEN_BODIES
/// The launch during which the most bytes live.
HALOGEN_INLINE int fullest_launch(const Layout& layout) {
  const Plan& plan = layout.plan();
  int fullest = 0;
  double most = -1;
  for (int i = 0; i < plan.launches.size(); ++i) {
    double live = 0;
    for (const StoredTensor& tensor : plan.tensors)
      if (!tensor.external && tensor.first_launch >= 0 && tensor.first_launch <= i && i <= tensor.last_launch)
        live += static_cast<double>(tensor.channels) * static_cast<double>(layout.level(tensor.level).points());
    if (live > most) most = live, fullest = i;
  }
  return fullest;
}

/// held, most: bytes beside the evaluation and bytes of all, the most on any rank.
[[noreturn]] HALOGEN_INLINE void refuse_limit(double limit, const Layout& least, double held, double most) {
  const auto text = [](double bytes) {
    const bool is_large = bytes >= static_cast<double>(GiB) / 10;
    return number_text(bytes / static_cast<double>(is_large ? GiB : MiB), std::chars_format::fixed, 2) +
           (is_large ? " GiB" : " MiB");
  };
  const Plan& plan = least.plan();
  const Launch& fullest = plan.launches[fullest_launch(least)];
  const double of_fields = most - held;
  const int ranks = least.decomposition().size(~0U);
  const std::string advice =
      held < limit ? "use " + std::to_string(static_cast<long long>(std::ceil(ranks * of_fields / (limit - held)))) +
                         " ranks, which about suffice, or a higher limit"
                   : "shard the parameters, or use a higher limit";
  throw CollectiveError(
      std::string(plan.training ? "a step" : "a prediction") + " of this model needs at least " + text(most) +
      " on a rank, but memory_limit is " + text(limit) + ": parameters, gradient and moments take " + text(held) +
      ", activations with their buffers " + text(of_fields) + ", the most in launch " + plan.name_of(fullest) +
      (fullest.node < plan.graph.inputs ? "" : " of " + layer_text(plan.node_of(fullest))) + "; " + advice);
}

HALOGEN_INLINE Layout layout_within(const MemoryLimit& limit, const Communicator& ranks, const Plan& plan,
                                    const PlanPlace& place, const std::function<std::size_t(const Layout&)>& staging) {
  const auto layout_of = [&place](auto&& of) {
    return Layout(std::forward<decltype(of)>(of), place.pieces, place.rank, place.input, place.value_bytes);
  };
  Layout all_kept = layout_of(plan);
  if (limit.bytes == 0) return all_kept;
  const auto bytes = static_cast<double>(limit.bytes);
  const auto bytes_of = [&](const Layout& layout) {
    return static_cast<double>(limit.held + staging(layout) + held_by(layout));
  };
  std::vector<double> most{static_cast<double>(limit.held), bytes_of(all_kept)};
  most_of_ranks(ranks, most);
  const double held = most[0];
  if (most[1] <= bytes) return all_kept;
  if (!plan.training) refuse_limit(bytes, all_kept, held, most[1]);

  // Only what may fit is laid out: no plan needs less than its tensors that live together, without margins.
  const std::vector<PlanChoice> choices = plan_choices(plan, all_kept.levels());
  std::vector<double> sizes;
  for (const StoredTensor& tensor : plan.tensors) {
    const bool has_memory = tensor.map < 0 && !tensor.external;
    double points = has_memory ? static_cast<double>(all_kept.samples()) * tensor.channels : 0;
    for (int d = 0; d < spatial_dimensions; ++d) points *= static_cast<double>(all_kept.owned(tensor.level, d).size());
    sizes.push_back(points * static_cast<double>(place.value_bytes.stored));
  }
  PlanTrial trial(plan, std::vector<double>(static_cast<std::size_t>(plan.launches.size())));
  most.clear();
  for (const PlanChoice& choice : choices) {
    trial.run(choice.keep);
    most.push_back(static_cast<double>(limit.held + all_kept.memory().workspace) + trial.peak(sizes));
  }
  most_of_ranks(ranks, most);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool is_last = i + 1 == choices.size();
    if (most[i] > bytes && !is_last) continue;
    auto chosen = std::make_shared<ChosenPlan>(plan, choices[i].keep);
    chosen->more_work = choices[i].work;
    chosen->tensors = all_kept.memory().tensors, chosen->kept = all_kept.memory().kept;
    Layout layout = layout_of(std::shared_ptr<const ChosenPlan>(std::move(chosen)));
    std::vector<double> needs{bytes_of(layout)};
    most_of_ranks(ranks, needs);
    if (needs[0] <= bytes) return layout;
    if (is_last) refuse_limit(bytes, layout, held, needs[0]);
  }
  return all_kept;  // never: the last choice returns or throws
}
#endif

}  // namespace detail

}  // namespace halogen
