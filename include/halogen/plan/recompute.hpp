// Plan -> plan: tensors that are not kept from the forward pass to the backward pass are computed again there. Which
// ones is the caller's choice; no operation is named here.
//
// Before a backward launch that reads such a tensor, the forward launches that wrote it are put once more, with new
// tensors as their outputs, and so are those that wrote what they read, as far as it is not kept either. Each tensor is
// computed again at most once. All that follows from the order of launches (lifetimes, memory, exchanges, gathered
// parameters) is found afterwards, as for any plan.
//
// A copy computes the same bits: it has the same kernel, draws the random numbers of the same node, and reads the same
// affines' tables. It gathers no statistics.
#pragma once

#include "halogen/plan/plan_order.hpp"

namespace halogen {

/// Which tensors a plan's forward pass can compute again: it writes them to memory of its own, by launches that send no
/// messages themselves, and nobody reads them after the step.
constexpr GrowingTable<bool> droppable_tensors(const PlanDraft& plan) {
  GrowingTable<bool> result(plan.tensors.size()), once(plan.tensors.size());
  for (int i = 0; i < plan.first_backward; ++i) {
    const Launch& launch = plan.launches[i];
    if (launch.output < 0 || plan.tensors[launch.output].external) continue;
    bool& droppable = result[launch.output.number];
    bool& has_writer = once[launch.output.number];
    droppable = !launch.kind->talks && (droppable || !has_writer) && !(has_writer && launch.kept >= 0);
    has_writer = true;
  }
  for (const TensorId output : plan.prediction)
    if (output >= 0) result[output.number] = false;
  return result;
}

namespace detail {

/// Both passes of a plan in which some tensors are computed again. It looks at each launch a few times only: compilers
/// count its steps.
class Recompute {
 public:
  constexpr Recompute(PlanDraft& plan, const GrowingTable<bool>& keep)
      : plan_(plan),
        keep_(keep),
        copy_(plan.tensors.size()),
        first_writer_(plan.tensors.size()),
        next_writer_(plan.first_backward),
        keeper_(plan.tensors.size()),
        read_(plan.tensors.size()),
        value_(plan.values.size()) {
    for (int i = plan.first_backward; i-- > 0;) {
      const Launch& launch = plan.launches[i];
      if (launch.output < 0) continue;
      next_writer_[i] = first_writer_[launch.output.number];
      first_writer_[launch.output.number] = i + 1;
      if (launch.kept < 0) continue;
      keeps_ = true;
      keeper_[launch.kept.number] = launch.output;
      keep_[launch.kept.number] = keep_[launch.output.number];
    }
    for (int i = plan.first_backward; keeps_ && i < plan.launches.size(); ++i)
      plan.for_each_read(plan.launches[i], [&](TensorId read) { read_[read.number] = true; });
  }

  /// Returns which launch of the plan as it was each launch is, or is a copy of.
  constexpr GrowingTable<int> run() {
    for (int i = 0; i < plan_.launches.size(); ++i) {
      Launch launch = plan_.launches[i];
      if (i >= plan_.first_backward) read_copies(launch);
      push(launch, i);
    }
    plan_.launches = launches_;
    return former_;
  }

 private:
  constexpr void push(const Launch& launch, int former) {
    launches_.push(launch);
    former_.push(former);
  }

  /// The tensor to read in the backward pass: itself if it is kept, else its copy, which is computed now if nothing has
  /// computed it before.
  constexpr TensorId needed(TensorId tensor) {
    if (tensor < 0 || tensor.number >= copy_.size()) return tensor;
    if (copy_[tensor.number] < 0) {
      if (plan_.tensors[tensor].map >= 0)
        copy_map(tensor);
      else if (keep_[tensor.number])
        copy_[tensor.number] = tensor;
      else
        compute_again(tensor);
    }
    return copy_[tensor.number];
  }

  /// A map has no memory. Its copy is computed from copies.
  constexpr void copy_map(TensorId tensor) {
    PointMap map = plan_.maps[plan_.tensors[tensor].map];
    bool changes = false;
    for (int i = 0; i < map.count; ++i) {
      ValueId& input = map.inputs[static_cast<std::size_t>(i)];
      const ValueId now = needed(input);
      changes |= !(now == input);
      input = now;
    }
    copy_[tensor.number] = tensor;
    if (!changes) return;
    copy_[tensor.number] = new_copy(tensor);
    plan_.tensors[copy_[tensor.number]].map = plan_.maps.push(map);
  }

  /// The value of the same sources, where they lie now.
  constexpr ValueId needed(ValueId number) {
    if (number.number >= value_.size()) return number;
    if (value_[number.number] < 0) value_[number.number] = with_copies(number, 0, plan_.values[number].sources.size());
    return value_[number.number];
  }
  constexpr ValueId with_copies(ValueId number, int first, int end) {
    Value value = plan_.values[number];
    bool changes = false;
    for (int i = first; i < end; ++i) {
      const TensorId now = needed(value.sources[i].tensor);
      changes |= !(now == value.sources[i].tensor);
      value.sources[i].tensor = now;
    }
    return changes ? ValueId(plan_.values.push(value)) : number;
  }

  constexpr void compute_again(TensorId tensor) {
    if (const TensorId output = keeper_[tensor.number]; output >= 0) tensor = output;  // both come from one launch
    copy_[tensor.number] = new_copy(tensor);
    for (int i = first_writer_[tensor.number]; i > 0; i = next_writer_[i - 1]) {
      Launch again = plan_.launches[i - 1];
      read_copies(again);
      again.output = copy_[tensor.number];
      if (again.kept >= 0) {
        const int kept = again.kept.number;
        again.kept = read_[kept] ? new_copy(TensorId(kept)) : TensorId{};
        copy_[kept] = again.kept;
      }
      again.statistics = {};
      again.origin = i - 1;
      push(again, i - 1);
    }
  }

  constexpr TensorId new_copy(TensorId of) {
    StoredTensor copy = plan_.tensors[of];
    copy.origin = of.number;
    return TensorId(plan_.tensors.push(copy));
  }

  /// Lets the launch read copies of what is not kept. Activations are read in the backward pass alone, so each is
  /// changed in its place.
  constexpr void read_copies(Launch& launch) {
    for (Read& operand : launch.reads) {
      switch (operand.role) {
        case Read::Role::value:
          operand = operand.of(needed(operand.value()));
          break;
        case Read::Role::source:
          launch.input = with_copies(launch.input, launch.source, launch.source + 1);
          break;
        case Read::Role::gradient:
          if (plan_.activations[operand.gradient()].reads_value()) read_copy_in(operand.gradient());
          break;
        case Read::Role::tensor:
          operand = operand.of(needed(operand.tensor()));
      }
    }
    if (launch.sums >= 0) read_copy_in(launch.sums);
    launch.mask = needed(launch.mask);
    launch.addend = needed(launch.addend);
  }

  constexpr void read_copy_in(ActivationId activation) {
    const TensorId tensor = needed(plan_.activations[activation].tensor);  // may make tables longer
    plan_.activations[activation].tensor = tensor;
  }

  PlanDraft& plan_;
  GrowingTable<bool> keep_;
  GrowingTable<TensorId> copy_;  ///< of each tensor of the plan as it was: what backward reads; negative: not known yet
  GrowingTable<int> first_writer_, next_writer_;  ///< 1 + a forward launch; next_writer_: of the same tensor, by launch
  GrowingTable<TensorId> keeper_;                 ///< of a launch's second tensor: the first
  GrowingTable<bool> read_;                       ///< by backward launches; only where some launch has a second tensor
  GrowingTable<ValueId> value_;                   ///< of each value of the plan as it was; negative: not known yet
  GrowingTable<Launch> launches_;                 ///< of the plan that is made
  GrowingTable<int> former_;                      ///< for each of them: its number in the plan as it was
  bool keeps_ = false;                            ///< some launch writes a second tensor
};

}  // namespace detail

/// Changes the plan so that of all tensors that the forward pass writes only those with keep[tensor] stay for the
/// backward pass. Only droppable_tensors() may be dropped. A second tensor that a launch writes goes with the first.
/// Returns for each launch its number in the plan as it was; for a copy, that of the launch that it copies.
constexpr GrowingTable<int> recompute(PlanDraft& plan, const GrowingTable<bool>& keep) {
  GrowingTable<int> former = detail::Recompute(plan, keep).run();
  detail::find_lifetimes(plan);
  detail::number_stages(plan);
  return former;
}

/// The tensors that stay where the graph's Checkpoints say which are computed again: all but those that are written in
/// one Checkpoint and that the forward pass reads only there.
constexpr GrowingTable<bool> kept_by_checkpoints(const PlanDraft& plan) {
  const GrowingTable<bool> droppable = droppable_tensors(plan);
  GrowingTable<int> segment(plan.tensors.size());  // 0: stays
  const auto stay_unless_in = [&](TensorId tensor, int own) {
    if (tensor >= 0 && segment[tensor.number] != own) segment[tensor.number] = 0;
  };
  for (int i = 0; i < plan.first_backward; ++i)
    if (const Launch& launch = plan.launches[i]; launch.output >= 0 && droppable[launch.output.number])
      segment[launch.output.number] = plan.node_of(launch).segment;
  for (int i = 0; i < plan.first_backward; ++i) {
    const Launch& launch = plan.launches[i];
    const int own = plan.node_of(launch).segment;
    plan.for_each_read(launch, [&](TensorId tensor) { stay_unless_in(tensor, own); });
    stay_unless_in(launch.output, own);
  }
  GrowingTable<bool> keep(plan.tensors.size());
  for (int t = 0; t < segment.size(); ++t) keep[t] = segment[t] == 0;
  return keep;
}

/// The number of the first Checkpoint that drops no tensor; 0 if all do.
constexpr int idle_segment(const PlanDraft& plan, const GrowingTable<bool>& keep) {
  GrowingTable<bool> drops(plan.graph.segments + 1);
  for (int i = 0; i < plan.first_backward; ++i)
    if (const TensorId output = plan.launches[i].output; output >= 0 && !keep[output.number])
      drops[plan.node_of(i).segment] = true;
  for (int segment = 1; segment < drops.size(); ++segment)
    if (!drops[segment]) return segment;
  return 0;
}

}  // namespace halogen
