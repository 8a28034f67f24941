// Planning the backward pass: which launches contribute to which gradients, and which gradients are shared instead of
// copied.
#pragma once

#include "halogen/plan/plan_forward.hpp"

namespace halogen {

/// What the vjp() of an operation can do to an unfinished plan.
class PlanGradients : public PlanForward {
 public:
  /// The activation to read for the gradient of what `node` stored. Negative if there is no gradient.
  constexpr ActivationId gradient_of(const Node& node) {
    return due_[node.index] >= 0 ? due_[node.index] : gradient_of_tensor(values_[node.index].sources[0].tensor);
  }

  /// Reads the gradient that gradient_of() found.
  static constexpr Read gradient(ActivationId activation, Pattern pattern) { return {activation, pattern}; }
  /// Reads the one source of the launch's input that the launch differentiates.
  static constexpr Read own_source(Pattern pattern) { return Read::source(pattern); }
  /// Reads what the node wrote forward.
  constexpr Read result(const Node& node) const { return {values_[node.index].sources[0].tensor, Pattern::point()}; }

  /// Reads what the node's forward launch kept.
  constexpr Read kept(const Node& node, Pattern pattern) const {
    for (const Launch& launch : plan_.launches)
      if (launch.node == node.index && launch.kept >= 0) return {launch.kept, pattern};
    throw "no forward launch of this node keeps a tensor";
  }

  /// Reads a tensor that emit_tensor() made.
  static constexpr Read tensor(TensorId tensor, Pattern pattern) { return {tensor, pattern}; }

  /// The launch writes a new tensor that is nobody's gradient. Later launches of the node read it, also at points that
  /// other ranks own.
  constexpr TensorId emit_tensor(Launch launch, int channels, int level) {
    launch.output = new_tensor(channels, level, false);
    emit(launch);
    return launch.output;
  }

  constexpr bool all_need_gradients(const Value& value) {
    for (const Source& source : value.sources)
      if (!needs_gradient(find_activation(source))) return false;
    return true;
  }

  /// Emits the launch once for each source of its input that needs a gradient. Resampled ones come first: what is
  /// computed for them at the reader's level lives for two launches, and not beside the gradients of the others.
  constexpr void emit_input_gradients(const Launch& launch) {
    for (const bool resampled : {true, false})
      for (int i = 0; i < plan_.input_of(launch).sources.size(); ++i)
        if (plan_.input_of(launch).sources[i].resampled == resampled) emit_input_gradient(launch, i);
  }

  /// The gradient of a resampled source is computed at the reader's level first, and then by the adjoint of the
  /// resampling.
  constexpr void emit_input_gradient(Launch launch, int i) {
    const Value input = plan_.input_of(launch);
    const Source& source = input.sources[i];
    const ActivationId activation = find_activation(source);
    if (!needs_gradient(activation)) return;
    launch.source = i;
    if (source.resampled) {
      launch.output = new_tensor(source.channels, input.level, true);
      emit(launch);
      const bool of_vector = plan_.graph.levels[plan_.tensors[source.tensor].level].whole;
      Launch adjoint;
      adjoint.kind = of_vector ? kind_of<ExpandAdjoint>() : kind_of<ResamplingAdjoint>();
      adjoint.node = launch.node;
      adjoint.input = launch.input;
      adjoint.source = i;
      if (of_vector) adjoint.level = input.level;
      adjoint.read(gradient(as_it_stands(launch.output), of_vector ? Pattern::point() : Pattern::resampling()));
      launch = adjoint;
    }
    contribute(launch, activation);
  }

  /// The gradient of a sum is the gradient of each term. If nobody else adds to a term's gradient, the term shares the
  /// one tensor. If others do, they add their contributions to it. A launch copies the gradient for a term that already
  /// has contributions, is resampled or is only part of a concatenation.
  constexpr void emit_sum_gradients(const Node& node) {
    ActivationId reads = gradient_of(node);
    if (reads < 0) return;
    const Launch writer = plan_.launches[last_writer(values_[node.index].sources[0].tensor)];
    reads = unmasked(reads);
    if (writer.node != node.index) {  // the launch of one of its inputs writes the sum
      due_[writer.node] = reads;
      return share_with_term(node, number_of(values_[node.inputs[node.inputs[0] == writer.node]]), reads);
    }
    for (const Read& term : writer.reads) share_with_term(node, term.value(), reads);
  }

  /// The gradient of the stored tensor itself, without the affine and the function. `reads` is what gradient_of()
  /// returned for the node. The launch that wrote the gradient last multiplies by the derivative of the function as it
  /// writes. A separate launch is needed for an affine, and for a gradient that a loss wrote, that the user gave or
  /// that several activations share.
  constexpr ActivationId unmasked(ActivationId reads) {
    const Activation activation = plan_.activations[reads];
    if (stands(reads)) return reads;
    const int writer = last_writer(activation.gradient);  // none if it is a cotangent that the user gave
    if (writer >= 0 && activation.affine < 0 && plan_.launches[writer].kind->common_output &&
        !shared_.reach(activation.gradient.number)) {
      plan_.launches[writer].mask = activation.tensor;
      plan_.launches[writer].mask_function = activation.function;
      return as_it_stands(activation.gradient);
    }
    const StoredTensor& like = plan_.tensors[activation.tensor];
    return as_it_stands(stored_gradient(reads, like.channels, like.level));
  }

 protected:
  constexpr explicit PlanGradients(const Graph& graph) : PlanForward(graph), due_(graph.nodes.size()) {}

  constexpr void share_with_term(const Node& node, ValueId term, ActivationId reads) {
    Launch copy = launch<StoreGradient>(node);
    copy.input = term;
    copy.read(gradient(reads, Pattern::point()));
    for (int i = 0; i < plan_.values[term].sources.size(); ++i) {
      const Source source = plan_.values[term].sources[i];
      if (source.resampled || plan_.values[term].sources.size() > 1 || !share(find_activation(source), reads))
        emit_input_gradient(copy, i);
    }
  }

  /// Lets the activation take the gradient that `reads` holds as its own, or as the tensor that its other readers add
  /// to. Returns whether it could, or needs no gradient.
  constexpr bool share(ActivationId activation, ActivationId reads) {
    Activation& a = plan_.activations[activation];
    if (!needs_gradient(activation)) return true;
    if (a.contributions > 0) return false;
    const TensorId tensor = plan_.activations[reads].gradient;
    if (a.readers > 1) {
      addends_.reach(activation.number) = tensor;
    } else {
      if (a.affine >= 0) {
        if (plan_.cotangent_of(tensor) >= 0) return false;
        Launch& writer = plan_.launches[last_writer(tensor)];
        if (!writer.kind->common_output || writer.sums >= 0) return false;
        writer.sums = activation;
      }
      a.gradient = tensor;
    }
    a.contributions = 1;
    return shared_.reach(tensor.number) = true;
  }

  /// A launch that belongs to no node. It reads one gradient as that of the stored tensor.
  static constexpr Launch add_gradient(ActivationId reads) {
    Launch launch;
    launch.kind = kind_of<AddGradients>();
    launch.node = 0;
    return launch.read(gradient(reads, Pattern::point()));
  }

  /// Writes out the gradient of a stored tensor itself, without the affine and the function of `reads`.
  constexpr TensorId stored_gradient(ActivationId reads, int channels, int level) {
    Launch launch = add_gradient(reads);
    launch.output = new_tensor(channels, level, true);
    emit(launch);
    return launch.output;
  }

  /// `launch` writes or adds its contribution to the activation's gradient. The launch of the last contribution gathers
  /// the sums of the affine if it can, else an extra launch does.
  constexpr void contribute(Launch launch, ActivationId activation) {
    Activation& a = plan_.activations[activation];
    const StoredTensor& tensor = plan_.tensors[a.tensor];
    if (a.gradient < 0) {
      a.gradient = new_tensor(tensor.channels, tensor.level, true);
      if (addends_.reach(activation.number) >= 0) launch.addend = addends_.reach(activation.number);
    }
    launch.output = a.gradient;
    launch.accumulate = a.contributions++ > 0;
    const bool sums = a.contributions == a.readers && a.affine >= 0, gathers = launch.kind->common_output;
    if (sums && gathers) launch.sums = activation;
    emit(launch);
    if (!sums || gathers) return;
    Launch extra = sums_of<GradientSums>(a.gradient, launch.node);
    extra.sums = activation;
    emit(extra);
  }

  constexpr ActivationId gradient_of_tensor(TensorId tensor) {
    if (!plan_.tensors[tensor].requires_gradient) return {};
    GrowingTable<ActivationId> views;
    int number = 0;
    for (const Activation& a : plan_.activations) {
      if (a.tensor.number == tensor.number && a.gradient >= 0) views.push(ActivationId(number));
      ++number;
    }
    if (views.empty()) return {};
    if (views.size() == 1) return views[0];
    int plain = 0;  // a view with neither affine nor function needs no launch: the first other view adds to it
    while (plain < views.size() && !stands(views[plain])) ++plain;
    const TensorId sum = new_tensor(plan_.tensors[tensor].channels, plan_.tensors[tensor].level, true);
    bool first = true;
    for (int i = 0; i < views.size(); ++i) {
      if (i == plain) continue;
      Launch launch = add_gradient(views[i]);
      launch.output = sum;
      if (first && plain < views.size()) launch.addend = plan_.activations[views[plain]].gradient;
      launch.accumulate = !first || launch.addend >= 0;
      first = false;
      emit(launch);
    }
    return as_it_stands(sum);
  }

  GrowingTable<bool> shared_;       ///< by tensor: whether several activations share it, or the user gave it
  GrowingTable<TensorId> addends_;  ///< by activation: the gradient that its contributions are added to
  GrowingTable<ActivationId> due_;  ///< of nodes whose launch writes a sum: the sum's gradient; none: their tensor's
};

}  // namespace halogen
