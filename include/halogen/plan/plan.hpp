// What a planned model is: stored tensors, launches in order, sums and exchanges. Values, no types.
#pragma once

#include <string>

#include "halogen/plan/launch.hpp"

namespace halogen {

/// A tensor with storage in the arena (or the user's, for the input and a given cotangent).
struct StoredTensor {
  int channels = 0;
  int level = 0;
  bool external = false;           ///< the user's field, not in the arena; the inputs are the first tensors
  bool gradient = false;           ///< holds a gradient
  bool requires_gradient = false;  ///< some parameter lies before it
  bool as_field = false;           ///< lies in memory as a field does, so that expressions read and write it
  int map = -1;                    ///< in BasicPlan::maps: it has no memory
  int first_launch = -1, last_write = -1, last_launch = -1;
};

/// What a tensor holds that nobody writes: its readers map other values to it as rows enter them.
struct PointMap {
  const char* functor = nullptr;  ///< core/type_of.hpp
  std::array<ValueId, 3> inputs;
  int count = 0;  ///< of these
  int parameter = -1, parameters = 0;
};

struct Norm {
  TensorId tensor;
  int groups = 1;
  int channels = 0;
  int parameter = -1;  ///< gamma; beta follows; negative: 1 and 0
  double epsilon = 0;
  bool of_batch = false;  ///< over all samples together, those of other ranks too
  int running = -1;       ///< buffer of the running mean; that of the variance follows
  double momentum = 0;    ///< share of the new statistics in the running ones
  int node = -1;
};

/// A stored tensor as its readers see it, (tensor, norm, function). Its gradient is what backward stores; the
/// gradient of the stored tensor itself is recomputed from it by whoever reads it.
struct Activation {
  TensorId tensor;
  NormId norm;
  Nonlinearity function;
  TensorId gradient;      ///< stored tensor that holds it
  int readers = 0;        ///< launches that will contribute
  int contributions = 0;  ///< that have

  /// Whether the stored tensor's gradient depends on the tensor as well: it is not the activation's as it stands.
  constexpr bool reads_value() const { return norm >= 0 || function; }
};

/// vjp: gradients of parameters and inputs from a given gradient of each prediction, its cotangent.
enum class PlanKind { inference, training, training_with_input_gradient, vjp };

/// What a plan is beside its tables.
struct PlanNumbers {
  bool training = false;
  bool input_gradient_wanted = false;
  TensorId input_gradient[most_inputs];  ///< stored tensors of the inputs', where wanted
  TensorId prediction[most_outputs];     ///< stored tensors of the outputs
  TensorId cotangent[most_outputs];      ///< their gradients, where given
  int stages = 0;
  int first_backward = 0;  ///< launches before it are the forward pass; the losses, unless cotangents are given

  /// Of the i-th input: they are the first tensors.
  static constexpr TensorId tensor_of_input(int i) { return TensorId(i); }

  constexpr bool takes_cotangents() const { return cotangent[0] >= 0; }
  /// Which output's cotangent a tensor is; -1 of none.
  constexpr int cotangent_of(TensorId tensor) const {
    for (int i = 0; i < most_outputs; ++i)
      if (tensor >= 0 && cotangent[i] == tensor) return i;
    return -1;
  }
};

/// Table as in BasicGraph.
template <template <class, int> class Table, class GraphType>
struct BasicPlan : PlanNumbers {
  GraphType graph;
  Table<StoredTensor, graph_capacity> tensors;
  Table<Norm, graph_capacity> norms;
  Table<Activation, graph_capacity> activations;
  Table<PointMap, 64> maps;
  Table<Value, graph_capacity> values;  ///< that launches read
  Table<Launch, 2 * graph_capacity> launches;

  constexpr const Node& node_of(const Launch& launch) const { return graph.nodes[launch.node]; }
  constexpr const Node& node_of(int launch) const { return node_of(launches[launch]); }

  /// What explain calls it: by its own name, or by its operation's.
  std::string name_of(const Launch& launch) const {
    if (*launch.kind->name != 0) return launch.kind->name;
    return std::string(node_of(launch).operation->name) + launch.kind->suffix;
  }

  /// What the node of a launch reads forward, or the one input that a backward launch differentiates.
  constexpr const Value& input_of(const Launch& launch) const { return values[launch.input]; }
  constexpr const Source& source_of(const Launch& launch) const { return input_of(launch).sources[launch.source]; }

  /// Calls seen(source) for a source, or for what is mapped to it.
  template <class Seen>
  constexpr void for_each_source(const Source& source, Seen seen) const {
    const int map = tensors[source.tensor].map;
    if (map < 0) return seen(source);
    for (int i = 0; i < maps[map].count; ++i)
      for (const Source& input : values[maps[map].inputs[static_cast<std::size_t>(i)]].sources) seen(input);
  }

  /// Calls f(tensor) for each stored tensor that an operand is read from, and seen(source) in its place for those that
  /// a reader may see resampled; a tensor may come twice.
  template <class F, class Seen>
  constexpr void for_each_tensor(const Launch& launch, const Read& operand, F f, Seen seen) const {
    switch (operand.role) {
      case Read::Role::value:
        for (const Source& source : values[operand.value()].sources) for_each_source(source, seen);
        break;
      case Read::Role::source:
        for_each_source(source_of(launch), seen);
        break;
      case Read::Role::gradient:
        f(activations[operand.gradient()].gradient);
        if (activations[operand.gradient()].reads_value()) f(activations[operand.gradient()].tensor);
        break;
      case Read::Role::tensor:
        f(operand.tensor());
    }
  }

  /// Calls f(tensor) for each stored tensor that the launch reads; a tensor may come twice.
  template <class F>
  constexpr void for_each_read(const Launch& launch, F f) const {
    for (const Read& operand : launch.reads)
      for_each_tensor(launch, operand, f, [&](const Source& source) { f(source.tensor); });
    if (launch.sums >= 0) f(activations[launch.sums].tensor);
    if (launch.accumulate) f(launch.addend >= 0 ? launch.addend : launch.output);
    if (launch.mask >= 0) f(launch.mask);
  }

  /// Calls f(parameter, at_end) for each parameter tensor that the launch reads, `at_end` for those that only its sums
  /// do; a tensor may come twice.
  template <class F>
  constexpr void for_each_parameter(const Launch& launch, F f) const {
    for (const ParameterUse& use : launch.parameters)
      if (!use.gradient) f(use.parameter, false);
    if (launch.statistics >= 0 && norms[launch.statistics].parameter >= 0)
      for (int i = 0; i < 2; ++i) f(norms[launch.statistics].parameter + i, true);
    if (launch.sums >= 0 && norms[activations[launch.sums].norm].parameter >= 0)
      f(norms[activations[launch.sums].norm].parameter, true);
  }

  /// Calls f(parameter, node) for each parameter tensor whose gradient the launch writes or adds to, for that node.
  template <class F>
  constexpr void for_each_parameter_gradient(const Launch& launch, F f) const {
    for (const ParameterUse& use : launch.parameters)
      if (use.gradient) f(use.parameter, launch.node);
    if (launch.sums < 0) return;
    const Norm& norm = norms[activations[launch.sums].norm];
    for (int i = 0; i < 2 && norm.parameter >= 0; ++i) f(norm.parameter + i, norm.node);
  }
};

/// The plan that is run: views of static tables (trace.hpp), or of a draft's.
struct Plan : BasicPlan<TableView, Graph> {};

/// A plan while a Planner makes it.
struct PlanDraft : BasicPlan<StaticVector, GraphDraft> {
  constexpr explicit PlanDraft(const GraphDraft& of) : BasicPlan{{}, of, {}, {}, {}, {}, {}, {}} {}

  constexpr operator Plan() const& {  // NOLINT: a draft is read as any plan, while it lives
    return {{*this, graph, tensors, norms, activations, maps, values, launches}};
  }
  operator Plan() const&& = delete;
};

}  // namespace halogen
