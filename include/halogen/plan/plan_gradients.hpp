// Planning backward: which launches contribute to which gradients, and where a gradient is shared instead of copied.
#pragma once

#include "halogen/plan/plan_forward.hpp"

namespace halogen {

/// What operations ask of a plan in the making by their vjp().
class PlanGradients : public PlanForward {
 public:
  /// The activation to read for the gradient of what `node` stored; -1 where none is due.
  constexpr ActivationId gradient_of(const Node& node) {
    return due_[node.index] >= 0 ? due_[node.index] : gradient_of_tensor(values_[node.index].sources[0].tensor);
  }

  /// The gradient that gradient_of() found.
  static constexpr Read gradient(ActivationId activation, Pattern pattern) { return {activation, pattern}; }
  /// Of the launch's input the one source that it differentiates.
  static constexpr Read own_source(Pattern pattern) { return Read::source(pattern); }
  /// What the node wrote forward.
  constexpr Read result(const Node& node) const { return {values_[node.index].sources[0].tensor, Pattern::point()}; }

  /// A tensor that emit_tensor() made.
  static constexpr Read tensor(TensorId tensor, Pattern pattern) { return {tensor, pattern}; }

  /// The launch writes a tensor of its own, which is nobody's gradient: what later launches of the node read of points
  /// that other ranks hold.
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

  /// The launch once for each source of its input that needs a gradient.
  constexpr void emit_input_gradients(const Launch& launch) {
    for (int i = 0; i < plan_.input_of(launch).sources.size(); ++i) emit_input_gradient(launch, i);
  }

  /// A resampled source gets its gradient at the reader's level first, then by the adjoint of the resampling.
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

  /// The gradient of a sum is that of each term: terms share the one tensor, where nobody else adds to theirs, or add
  /// what others contribute to it. A term that has contributions already, or is part of a term, gets a copy.
  constexpr void emit_sum_gradients(const Node& node) {
    ActivationId reads = gradient_of(node);
    if (reads < 0) return;
    const Launch writer = plan_.launches[last_writer(values_[node.index].sources[0].tensor)];
    reads = unmasked(reads);
    if (writer.node != node.index) {  // an input's own launch writes the sum
      due_[writer.node] = reads;
      return share_with_term(node, number_of(values_[node.inputs[node.inputs[0] == writer.node]]), reads);
    }
    for (const Read& term : writer.reads) share_with_term(node, term.value(), reads);
  }

  /// For the node that gradient_of() found it for: the same gradient as it stands, without norm and function before it:
  /// the function's part is done by who wrote it last, as rows leave; a norm's takes a launch, and so does the gradient
  /// of a loss or one that others share.
  constexpr ActivationId unmasked(ActivationId reads) {
    const Activation activation = plan_.activations[reads];
    if (stands(reads)) return reads;
    const int writer = last_writer(activation.gradient);  // none of a cotangent that is given
    if (writer >= 0 && activation.norm < 0 && plan_.launches[writer].kind->common_output &&
        !shared_[activation.gradient.number]) {
      plan_.launches[writer].mask = activation.tensor;
      plan_.launches[writer].mask_function = activation.function;
      return as_it_stands(activation.gradient);
    }
    const StoredTensor& like = plan_.tensors[activation.tensor];
    return as_it_stands(stored_gradient(reads, like.channels, like.level));
  }

 protected:
  constexpr explicit PlanGradients(const GraphDraft& graph) : PlanForward(graph) {}

  constexpr void share_with_term(const Node& node, ValueId term, ActivationId reads) {
    Launch copy = launch<StoreGradient>(node);
    copy.input = term;
    copy.read(gradient(reads, Pattern::point()));
    for (int i = 0; i < plan_.values[term].sources.size(); ++i) {
      const Source source = plan_.values[term].sources[i];
      if (source.resampled || source.channels != node.channels || !share(find_activation(source), reads))
        emit_input_gradient(copy, i);
    }
  }

  /// Whether the activation takes the gradient that `reads` holds as its own, or as what its other readers add to.
  constexpr bool share(ActivationId activation, ActivationId reads) {
    Activation& a = plan_.activations[activation];
    if (!needs_gradient(activation)) return true;
    if (a.contributions > 0) return false;
    const TensorId tensor = plan_.activations[reads].gradient;
    if (a.readers > 1) {
      addends_[activation.number] = tensor;
    } else {
      if (a.norm >= 0) {
        if (plan_.cotangent_of(tensor) >= 0) return false;
        Launch& writer = plan_.launches[last_writer(tensor)];
        if (!writer.kind->common_output || writer.sums >= 0) return false;
        writer.sums = activation;
      }
      a.gradient = tensor;
    }
    a.contributions = 1;
    return shared_[tensor.number] = true;
  }

  /// Of no node: it reads one gradient, as it is of the stored tensor.
  static constexpr Launch add_gradient(ActivationId reads) {
    Launch launch;
    launch.kind = kind_of<AddGradients>();
    launch.node = 0;
    return launch.read(gradient(reads, Pattern::point()));
  }

  /// A gradient written out, without what its readers see.
  constexpr TensorId stored_gradient(ActivationId reads, int channels, int level) {
    Launch launch = add_gradient(reads);
    launch.output = new_tensor(channels, level, true);
    emit(launch);
    return launch.output;
  }

  /// `launch` writes or adds its share of the activation's gradient; the last share gathers the norm's sums.
  constexpr void contribute(Launch launch, ActivationId activation) {
    Activation& a = plan_.activations[activation];
    const StoredTensor& tensor = plan_.tensors[a.tensor];
    if (a.gradient < 0) {
      a.gradient = new_tensor(tensor.channels, tensor.level, true);
      if (addends_[activation.number] >= 0) launch.addend = addends_[activation.number];
    }
    launch.output = a.gradient;
    launch.accumulate = a.contributions++ > 0;
    if (a.contributions == a.readers && a.norm >= 0) launch.sums = activation;
    emit(launch);
  }

  constexpr ActivationId gradient_of_tensor(TensorId tensor) {
    if (!plan_.tensors[tensor].requires_gradient) return {};
    StaticVector<ActivationId, 8> views;
    for (int i = 0; i < plan_.activations.size(); ++i)
      if (plan_.activations[i].tensor == tensor && plan_.activations[i].gradient >= 0) views.push(ActivationId(i));
    if (views.empty()) return {};
    if (views.size() == 1) return views[0];
    int plain = 0;  // a view whose gradient stands as it is needs no pass: the first other one adds to it
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

  bool shared_[graph_capacity] = {};  ///< gradients that are more than one activation's
  TensorId addends_[graph_capacity];  ///< gradients that activations' contributions are added to
  ActivationId due_[graph_capacity];  ///< gradients of launches that write a sum for its node; none: its tensor's
};

}  // namespace halogen
