// Graph -> plan: constexpr code that fuses pointwise work into readers, plans the adjoint and finds every lifetime.
#pragma once

#include "halogen/plan/plan_gradients.hpp"
#include "halogen/plan/recompute.hpp"

namespace halogen {

/// Goes through the graph forward and then backward. Each node's Operation emits its launches through this interface.
class Planner : public PlanGradients {
 public:
  constexpr Planner(const Graph& graph, PlanKind kind) : PlanGradients(graph), kind_(kind) {
    plan_.training = kind != PlanKind::inference;
    plan_.input_gradient_wanted = kind == PlanKind::training_with_input_gradient || kind == PlanKind::vjp;
  }

  constexpr PlanDraft plan() && {
    for (int i = 0; i < plan_.graph.inputs; ++i) take_input(i);
    for (int i = plan_.graph.inputs; i < plan_.graph.nodes.size(); ++i)
      if (live_[i]) plan_.graph.nodes[i].operation->forward(*this, plan_.graph.nodes[i]);
    for (int i = 0; i < plan_.graph.outputs; ++i) finish_output(i);
    plan_.first_backward = plan_.launches.size();
    if (plan_.training) {
      for (int i = 0; i < plan_.graph.outputs; ++i)
        if (kind_ != PlanKind::vjp) count_reader(predictions_[i]);
      for (int i = 0; i < plan_.graph.outputs; ++i) kind_ == PlanKind::vjp ? take_cotangent(i) : seed(i);
      for (int i = plan_.graph.nodes.size(); i-- > plan_.graph.inputs;)
        if (live_[i]) vjp_with_stores(i);
    }
    for (int i = 0; i < plan_.graph.inputs; ++i)
      if (plan_.tensors[i].requires_gradient) plan_.input_gradient[i] = gradient_of_input(i);
    if (plan_.graph.segments > 0 && plan_.training) {
      const GrowingTable<bool> keep = kept_by_checkpoints(plan_);
      plan_.idle_segment = idle_segment(plan_, keep);
      recompute(plan_, keep);
    } else {
      detail::find_lifetimes(plan_);
      detail::number_stages(plan_);
    }
    return std::move(plan_);
  }

 private:
  constexpr void take_input(int i) {
    const InputShape& shape = plan_.graph.input[i];
    const int level = plan_.graph.nodes[i].level;
    const TensorId tensor = new_tensor(shape.channels, level, false);
    plan_.tensors[tensor].external = true;
    plan_.tensors[tensor].requires_gradient = plan_.input_gradient_wanted && shape.gradient && !shape.integer;
    values_[i] = plain(tensor, level);
  }

  /// One stored tensor with the gradient of an input. It is kept after the step for the user. None if nothing reads the
  /// input.
  constexpr TensorId gradient_of_input(int i) {
    const ActivationId reads = gradient_of_tensor(plan_.tensor_of_input(i));
    if (reads < 0) return {};
    const Activation activation = plan_.activations[reads];
    if (stands(reads)) return activation.gradient;
    return stored_gradient(reads, plan_.tensors[i].channels, plan_.tensors[i].level);
  }

  /// Makes a prediction one plain stored tensor of its own, so that a loss and the user can read it.
  constexpr void finish_output(int i) {
    const int node = plan_.graph.output[i];
    Value output = values_[node];
    if (!output.is_raw() || plan_.tensors[output.sources[0].tensor].external || is_prediction(output.sources[0].tensor))
      output = stored(plan_.graph.nodes[node], output);
    plan_.prediction[i] = output.sources[0].tensor;
    predictions_[i] = output;
  }

  constexpr bool is_prediction(TensorId tensor) const { return std::ranges::count(plan_.prediction, tensor) > 0; }

  constexpr void seed(int i) {
    const Value& prediction = predictions_[i];
    Launch loss;
    loss.kind = kind_of<LossLaunch>();
    loss.node = plan_.graph.output[i];
    loss.input = number_of(prediction);
    loss.source = 0;
    loss.read({loss.input, Pattern::point()});
    contribute(loss, find_activation(prediction.sources[0]));
  }

  /// The gradient of a prediction is the user's field. It is read where the user has it: no launch needs the
  /// prediction's values to read it, and none writes to it. If layers read the prediction too, the first of their
  /// launches adds its contribution to the field's values and writes the sum elsewhere.
  constexpr void take_cotangent(int i) {
    const TensorId tensor = predictions_[i].sources[0].tensor;
    const TensorId given = new_tensor(plan_.tensors[tensor].channels, plan_.tensors[tensor].level, true);
    plan_.cotangent[i] = given;
    plan_.tensors[given].external = true;
    shared_.reach(given.number) = true;
    const ActivationId activation = find_activation(predictions_[i].sources[0]);
    Activation& a = plan_.activations[activation];
    if (a.readers == 0)
      a.gradient = given;
    else
      addends_.reach(activation.number) = given;
    ++a.readers;
    a.contributions = 1;
  }

  /// Backward goes in reverse order: first the adjoint of a store that wrote a prediction, then the node's own vjp,
  /// then the adjoints of the stores that wrote its inputs.
  constexpr void vjp_with_stores(int node) {
    store_vjp(node, true);
    plan_.graph.nodes[node].operation->vjp(*this, plan_.graph.nodes[node]);
    store_vjp(node, false);
  }

  constexpr void store_vjp(int node, bool of_output) {
    for (int i = stores_.size(); i-- > 0;) {
      if (stores_[i].node != node) continue;
      const Launch forward = plan_.launches[stores_[i].launch];
      if (is_prediction(forward.output) != of_output) continue;
      const ActivationId reads = gradient_of_tensor(forward.output);
      if (reads < 0) continue;
      Launch adjoint = launch<StoreGradient>(plan_.graph.nodes[node]);
      adjoint.input = forward.input;
      emit_input_gradients(adjoint.read(gradient(reads, Pattern::point())));
    }
  }

  PlanKind kind_;
  Value predictions_[most_outputs];
};

/// The plan of a traced graph, which must outlive it. A plan for training has forward and backward together, one for
/// inference keeps nothing.
constexpr PlanDraft make_plan(const Graph& graph, PlanKind kind) { return Planner(graph, kind).plan(); }

}  // namespace halogen
