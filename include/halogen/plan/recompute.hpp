// Plan -> plan: tensors that are not kept from the forward pass to the backward pass are computed again there. Which
// ones is the caller's choice; no operation is named here.
//
// Before a backward launch that reads such a tensor, the forward launches that wrote it are put once more, with new
// tensors as their outputs, and so are those that wrote what they read, as far as it is not kept either. Each tensor is
// computed again at most once. All that follows from the order of launches (lifetimes, memory, exchanges, gathered
// parameters) is found afterwards, as for any plan.
//
// A copy computes the same bits: it has the same kernel, draws the random numbers of the same node, and reads the same
// tables of norms. It gathers no statistics.
#pragma once

#include "halogen/plan/plan_order.hpp"

namespace halogen {

namespace detail {

class Recompute {
 public:
  constexpr Recompute(PlanDraft& plan, const GrowingTable<bool>& keep)
      : plan_(plan), keep_(keep), copy_(plan.tensors.size()) {
    for (int i = 0; i < plan.first_backward; ++i)
      if (const Launch& launch = plan.launches[i]; launch.kept >= 0)
        keep_[launch.kept.number] = keep_[launch.output.number];
  }

  /// Returns which launch of the plan as it was each launch is, or is a copy of.
  constexpr GrowingTable<int> run() {
    for (int i = 0; i < plan_.launches.size(); ++i)
      push(i < plan_.first_backward ? plan_.launches[i] : with_copies(plan_.launches[i]), i);
    plan_.launches = launches_;
    return former_;
  }

 private:
  constexpr void push(const Launch& launch, int former) {
    launches_.push(launch);
    former_.push(former);
  }

  constexpr bool is_dropped(TensorId tensor) const { return tensor.number < keep_.size() && !keep_[tensor.number]; }

  /// The tensor to read in the backward pass: itself if it is kept, else its copy, which is computed now if nothing has
  /// computed it before.
  constexpr TensorId needed(TensorId tensor) {
    if (tensor >= 0 && plan_.tensors[tensor].map >= 0) return needed_map(tensor);
    if (tensor < 0 || !is_dropped(tensor)) return tensor;
    if (copy_[tensor.number] < 0) compute_again(tensor);
    return copy_[tensor.number];
  }

  /// A map has no memory. Its copy is computed from copies.
  constexpr TensorId needed_map(TensorId tensor) {
    PointMap map = plan_.maps[plan_.tensors[tensor].map];
    for (int i = 0; i < map.count; ++i) {
      ValueId& input = map.inputs[static_cast<std::size_t>(i)];
      input = needed(input);
    }
    if (map == plan_.maps[plan_.tensors[tensor].map]) return tensor;
    for (int i = 0; i < plan_.tensors.size(); ++i)
      if (plan_.tensors[i].map >= 0 && plan_.maps[plan_.tensors[i].map] == map) return TensorId(i);
    const TensorId copy = new_copy(tensor);
    plan_.tensors[copy].map = plan_.maps.push(map);
    return copy;
  }

  /// A value of the same sources, or with only one of them, where they lie now.
  constexpr ValueId needed(ValueId number, int only = -1) {
    Value value = plan_.values[number];
    for (int i = 0; i < value.sources.size(); ++i)
      if (only < 0 || only == i) value.sources[i].tensor = needed(value.sources[i].tensor);
    if (value == plan_.values[number]) return number;
    for (int i = 0; i < plan_.values.size(); ++i)
      if (plan_.values[i] == value) return ValueId(i);
    return ValueId(plan_.values.push(value));
  }

  constexpr void compute_again(TensorId tensor) {
    for (int i = 0; i < plan_.first_backward; ++i)  // what comes with another output is computed with it
      if (plan_.launches[i].kept == tensor) tensor = plan_.launches[i].output;
    copy_[tensor.number] = new_copy(tensor);
    for (int i = 0; i < plan_.first_backward; ++i) {
      if (plan_.launches[i].output != tensor) continue;
      Launch again = with_copies(plan_.launches[i]);
      again.output = copy_[tensor.number];
      if (again.kept >= 0)
        again.kept = is_read_backward(again.kept) ? copy_[again.kept.number] = new_copy(again.kept) : TensorId{};
      again.statistics = {};
      again.origin = i;
      push(again, i);
    }
  }

  constexpr TensorId new_copy(TensorId of) {
    StoredTensor copy = plan_.tensors[of];
    copy.origin = of.number;
    return TensorId(plan_.tensors.push(copy));
  }

  constexpr bool is_read_backward(TensorId tensor) const {
    bool found = false;
    for (int i = plan_.first_backward; i < plan_.launches.size(); ++i)
      plan_.for_each_read(plan_.launches[i], [&](TensorId read) { found |= read == tensor; });
    return found;
  }

  /// The launch, reading copies of what is not kept. Activations are read in the backward pass alone, so each is
  /// changed in its place.
  constexpr Launch with_copies(Launch launch) {
    for (Read& operand : launch.reads) {
      switch (operand.role) {
        case Read::Role::value:
          operand = operand.of(needed(operand.value()));
          break;
        case Read::Role::source:
          launch.input = needed(launch.input, launch.source);
          break;
        case Read::Role::gradient:
          if (plan_.activations[operand.gradient()].reads_value()) needed_value_of(operand.gradient());
          break;
        case Read::Role::tensor:
          operand = operand.of(needed(operand.tensor()));
      }
    }
    if (launch.sums >= 0) needed_value_of(launch.sums);
    launch.mask = needed(launch.mask);
    launch.addend = needed(launch.addend);
    return launch;
  }

  constexpr void needed_value_of(ActivationId activation) {
    const TensorId tensor = needed(plan_.activations[activation].tensor);  // may make tables longer
    plan_.activations[activation].tensor = tensor;
  }

  PlanDraft& plan_;
  GrowingTable<bool> keep_;
  GrowingTable<TensorId> copy_;    ///< of each tensor of the plan as it was; negative: none yet
  GrowingTable<Launch> launches_;  ///< of the plan that is made
  GrowingTable<int> former_;       ///< for each of them: its number in the plan as it was
};

}  // namespace detail

/// Changes the plan so that of all tensors that the forward pass writes only those with keep[tensor] stay for the
/// backward pass. Only what can_be_dropped() may be dropped. A second tensor that a launch writes goes with the first.
/// Returns for each launch its number in the plan as it was; for a copy, that of the launch that it copies.
constexpr GrowingTable<int> recompute(PlanDraft& plan, const GrowingTable<bool>& keep) {
  GrowingTable<int> former = detail::Recompute(plan, keep).run();
  detail::find_lifetimes(plan);
  detail::number_stages(plan);
  return former;
}

/// Whether a plan's forward pass can compute the tensor again: it writes it to memory of its own, by launches that send
/// no messages themselves, and nobody reads it after the step.
constexpr bool can_be_dropped(const PlanDraft& plan, TensorId tensor) {
  const StoredTensor& stored = plan.tensors[tensor];
  if (stored.external || stored.map >= 0 || stored.gradient) return false;
  for (const TensorId output : plan.prediction)
    if (output == tensor) return false;
  bool is_written = false;
  int writers = 0;
  bool keeps = false;
  for (int i = 0; i < plan.first_backward; ++i) {
    const Launch& launch = plan.launches[i];
    if (launch.output != tensor) continue;
    if (launch.kind->talks) return false;
    ++writers, is_written = true;
    keeps |= launch.kept >= 0;
  }
  return is_written && !(keeps && writers > 1);
}

/// The tensors that stay where the graph's Checkpoints say which are computed again: all but those that are written in
/// one Checkpoint and that the forward pass reads only there.
constexpr GrowingTable<bool> kept_by_checkpoints(const PlanDraft& plan) {
  GrowingTable<int> segment(plan.tensors.size());  // 0: stays
  for (int i = 0; i < plan.first_backward; ++i)
    if (const Launch& launch = plan.launches[i]; launch.output >= 0 && can_be_dropped(plan, launch.output))
      segment[launch.output.number] = plan.node_of(launch).segment;
  for (int i = 0; i < plan.first_backward; ++i) {
    const Launch& launch = plan.launches[i];
    const int own = plan.node_of(launch).segment;
    const auto stay_unless_own = [&](TensorId tensor) {
      if (tensor >= 0 && segment[tensor.number] != own) segment[tensor.number] = 0;
    };
    plan.for_each_read(launch, stay_unless_own);
    stay_unless_own(launch.output);
  }
  GrowingTable<bool> keep(plan.tensors.size());
  for (int t = 0; t < segment.size(); ++t) keep[t] = segment[t] == 0;
  return keep;
}

/// Whether any of a Checkpoint's tensors is dropped.
constexpr bool drops_some(const PlanDraft& plan, const GrowingTable<bool>& keep, int segment) {
  for (int i = 0; i < plan.first_backward; ++i)
    if (const TensorId output = plan.launches[i].output; output >= 0 && !keep[output.number])
      if (plan.node_of(i).segment == segment) return true;
  return false;
}

}  // namespace halogen
