// What the planner knows while it plans a graph: values of nodes, stored tensors, and activations with their readers.
#pragma once

#include "halogen/plan/common_launches.hpp"
#include "halogen/plan/plan.hpp"

namespace halogen {

/// What a Planner and the operations ask about an unfinished plan, and changes to it that add no launch.
class PlanValues {
 public:
  constexpr const Value& value_of(int node) const { return values_[node]; }
  constexpr void set_value(const Node& node, const Value& value) { values_[node.index] = value; }

  /// Whether `value` is one stored tensor as it was written, and no affine needs its moments.
  constexpr bool is_plain(const Value& value) const {
    if (!value.is_raw()) return false;
    for (const AffineTable& affine : plan_.affines)
      if (affine.tensor == value.sources[0].tensor) return false;
    return true;
  }

  /// Whether the value is a map, which its readers compute from other values.
  constexpr bool is_map(const Value& value) const { return plan_.tensors[value.sources[0].tensor].map >= 0; }

 protected:
  constexpr explicit PlanValues(const Graph& graph)
      : plan_(graph), values_(graph.nodes.size()), live_(graph.nodes.size()) {
    for (int i = 0; i < plan_.graph.outputs; ++i) live_[plan_.graph.output[i]] = true;
    for (int i = plan_.graph.nodes.size(); i-- > 0;)
      if (live_[i])
        for (int input : plan_.graph.nodes[i].inputs)
          if (input >= 0) live_[input] = true;
  }

  /// How many nodes read the value of this node. The user counts as a reader of an output.
  constexpr int readers_of(int node) const {
    int readers = plan_.graph.is_output(node);
    for (int other = node + 1; other < plan_.graph.nodes.size(); ++other)
      if (live_[other])
        for (const int input : plan_.graph.nodes[other].inputs) readers += input == node;
    return readers;
  }

  constexpr TensorId new_tensor(int channels, int level, bool gradient) {
    StoredTensor tensor;
    tensor.channels = channels;
    tensor.level = level;
    tensor.gradient = gradient;
    return TensorId(plan_.tensors.push(tensor));
  }

  /// A gradient that is read as it is stored.
  constexpr ActivationId as_it_stands(TensorId tensor) {
    Activation plain;
    plain.gradient = tensor;
    return ActivationId(plan_.activations.push(plain));
  }

  constexpr bool stands(ActivationId activation) const { return !plan_.activations[activation].reads_value(); }

  constexpr int last_writer(TensorId tensor) const {
    int last = plan_.launches.size() - 1;
    while (last >= 0 && plan_.launches[last].output != tensor) --last;
    return last;
  }

  constexpr ActivationId find_activation(const Source& source) {
    for (int i = plan_.activations.size(); i-- > 0;) {
      const Activation& a = plan_.activations[i];
      if (a.tensor == source.tensor && a.affine == source.affine && a.function == source.function)
        return ActivationId(i);
    }
    Activation activation;
    activation.tensor = source.tensor;
    activation.affine = source.affine;
    activation.function = source.function;
    return ActivationId(plan_.activations.push(activation));
  }

  constexpr void count_reader(const Value& value) {
    for (const Source& source : value.sources) ++plan_.activations[find_activation(source)].readers;
  }

  /// The index of `value` in the table of values that launches read. Compilers limit the number of constexpr steps, so
  /// the search compares few values.
  constexpr ValueId number_of(const Value& value) {
    const TensorId tensor = value.sources[0].tensor;
    int& last = last_value_.reach(tensor.number);
    if (last > 0 && plan_.values[last - 1] == value) return ValueId(last - 1);
    for (int i = plan_.values.size(); last > 0 && i-- > 0;)
      if (plan_.values[i].sources[0].tensor == tensor && plan_.values[i] == value) return ValueId(i);
    last = plan_.values.push(value) + 1;
    return ValueId(last - 1);
  }

  /// Whether there is an affine, and it has a parameter that is trained.
  constexpr bool is_trained(AffineTableId affine) const {
    const int gamma = affine >= 0 ? plan_.affines[affine].parameter : -1;
    return gamma >= 0 && !(plan_.graph.parameters[gamma].buffer && plan_.graph.parameters[gamma + 1].buffer);
  }

  constexpr bool needs_gradient(ActivationId activation) const {
    const Activation& a = plan_.activations[activation];
    return is_trained(a.affine) || plan_.tensors[a.tensor].requires_gradient;
  }

  PlanDraft plan_;
  GrowingTable<Value> values_;    ///< by node
  GrowingTable<bool> live_;       ///< by node: the output depends on it
  GrowingTable<int> last_value_;  ///< by tensor: 1 + the last of plan_.values that begins with it; 0: none
};

}  // namespace halogen
