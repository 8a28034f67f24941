// A plan: stored tensors, launches in order, sums and exchanges. They are values, not types.
#pragma once

#include <string>

#include "halogen/plan/launch.hpp"

namespace halogen {

/// A tensor with memory: in the arena, or the user's for the inputs and given cotangents.
struct StoredTensor {
  int channels = 0;
  int level = 0;
  bool external = false;           ///< the user's field, not in the arena; the inputs are the first tensors
  bool gradient = false;           ///< holds a gradient
  bool requires_gradient = false;  ///< it depends on a trained parameter, or on an input whose gradient is wanted
  bool as_field = false;           ///< its memory has the layout of a field, so that expressions can read and write it
  int map = -1;                    ///< index in BasicPlan::maps if the tensor is a map; a map has no memory
  int first_launch = -1, last_write = -1, last_launch = -1;
  int origin = -1;  ///< computed again: the tensor that the forward pass wrote
};

/// A tensor that nobody writes. The launches that read it compute it from other values, row by row as they read.
struct PointMap {
  const char* functor = nullptr;  ///< core/type_of.hpp
  std::array<ValueId, 3> inputs;
  int count = 0;  ///< how many of `inputs` there are
  int parameter = -1, parameters = 0;
  constexpr bool operator==(const PointMap&) const = default;
};

/// An affine: a scale and a shift for each (sample, channel) of a stored tensor, which launches apply as they read.
/// This entry says what the tables are made from: the moments of groups of channels, or numbers that a launch computes.
struct AffineTable {
  TensorId tensor;
  int groups = 1;
  int channels = 0;
  int parameter = -1;  ///< gamma; beta follows; if negative, gamma is 1 and beta 0
  double epsilon = 0;
  bool of_batch = false;  ///< over all samples together, also those of other ranks
  int running = -1;       ///< buffer of the running mean; the running variance follows
  double momentum = 0;    ///< weight of the new statistics in the running ones
  int node = -1;
};

/// A stored tensor as its readers see it: (tensor, affine, function). Backward stores the gradient of the activation. A
/// launch that needs the gradient of the stored tensor itself recomputes it from that.
struct Activation {
  TensorId tensor;
  AffineTableId affine;
  Nonlinearity function;
  TensorId gradient;      ///< the stored tensor that holds it
  int readers = 0;        ///< how many launches will contribute to the gradient
  int contributions = 0;  ///< how many have contributed so far

  /// Whether the gradient of the stored tensor depends on the tensor's values as well. Then it differs from the
  /// gradient of the activation.
  constexpr bool reads_value() const { return affine >= 0 || function; }
};

/// vjp: from a given gradient of each prediction, its cotangent, to the gradients of parameters and inputs.
enum class PlanKind { inference, training, training_with_input_gradient, vjp };

/// What a plan has in addition to its tables.
struct PlanNumbers {
  bool training = false;
  bool input_gradient_wanted = false;
  TensorId input_gradient[most_inputs];  ///< the gradients of the inputs, where wanted
  TensorId prediction[most_outputs];     ///< the outputs
  TensorId cotangent[most_outputs];      ///< the gradients of the outputs, where given
  int stages = 0;
  int first_backward = 0;  ///< index of the first backward launch: a loss, unless cotangents are given
  int idle_segment = 0;    ///< a Checkpoint that drops no tensor, from 1 on; 0: there is none

  /// The tensor of the i-th input. The inputs are the first tensors.
  static constexpr TensorId tensor_of_input(int i) { return TensorId(i); }

  constexpr bool takes_cotangents() const { return cotangent[0] >= 0; }
  /// The number of the output whose cotangent the tensor is, or -1.
  constexpr int cotangent_of(TensorId tensor) const {
    for (int i = 0; i < most_outputs; ++i)
      if (tensor >= 0 && cotangent[i] == tensor) return i;
    return -1;
  }
};

/// Table is the same as in BasicGraph.
template <template <class> class Table>
struct BasicPlan : PlanNumbers {
  Graph graph;
  Table<StoredTensor> tensors;
  Table<AffineTable> affines;
  Table<Activation> activations;
  Table<PointMap> maps;
  Table<Value> values;  ///< values that launches read
  Table<Launch> launches;

  constexpr const Node& node_of(const Launch& launch) const { return graph.nodes[launch.node]; }
  constexpr const Node& node_of(int launch) const { return node_of(launches[launch]); }

  /// The name of a launch in explain: its own, or that of its operation with the suffix.
  std::string name_of(const Launch& launch) const {
    const std::string name = *launch.kind->name != 0
                                 ? launch.kind->name
                                 : std::string(node_of(launch).operation->name) + launch.kind->suffix;
    return launch.origin < 0 ? name : name + " again";
  }

  /// What the node of a launch reads forward. For a backward launch, the one input that it differentiates.
  constexpr const Value& input_of(const Launch& launch) const { return values[launch.input]; }
  constexpr const Source& source_of(const Launch& launch) const { return input_of(launch).sources[launch.source]; }

  /// The stored tensor whose sums a launch gathers, if it gathers any (Launch::statistics, sums).
  constexpr TensorId summed_tensor(const Launch& launch) const {
    if (launch.output >= 0) return launch.output;
    return launch.statistics >= 0 ? affines[launch.statistics].tensor : activations[launch.sums].gradient;
  }

  /// Calls seen(source). If the source is a map, calls seen for each source that the map is computed from.
  template <class Seen>
  constexpr void for_each_source(const Source& source, Seen seen) const {
    const int map = tensors[source.tensor].map;
    if (map < 0) return seen(source);
    for (int i = 0; i < maps[map].count; ++i)
      for (const Source& input : values[maps[map].inputs[static_cast<std::size_t>(i)]].sources) seen(input);
  }

  /// Calls f(tensor) for each stored tensor that an operand is read from. For sources, which a reader may see
  /// resampled, calls seen(source) instead. A tensor may come twice.
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

  /// Calls f(tensor) for each stored tensor that the launch reads. A tensor may come twice.
  template <class F>
  constexpr void for_each_read(const Launch& launch, F f) const {
    for (const Read& operand : launch.reads)
      for_each_tensor(launch, operand, f, [&](const Source& source) { f(source.tensor); });
    if (launch.sums >= 0) f(activations[launch.sums].tensor);
    if (launch.accumulate) f(launch.addend >= 0 ? launch.addend : launch.output);
    if (launch.mask >= 0) f(launch.mask);
  }

  /// Calls f(parameter, at_end) for each parameter tensor that the launch reads. at_end is true if only the sums of the
  /// launch read it. A parameter may come twice.
  template <class F>
  constexpr void for_each_parameter(const Launch& launch, F f) const {
    for (const ParameterUse& use : launch.parameters)
      if (!use.gradient) f(use.parameter, false);
    if (launch.statistics >= 0 && affines[launch.statistics].parameter >= 0)
      for (int i = 0; i < 2; ++i) f(affines[launch.statistics].parameter + i, true);
    if (launch.sums >= 0 && affines[activations[launch.sums].affine].parameter >= 0)
      f(affines[activations[launch.sums].affine].parameter, true);
  }

  /// Calls f(parameter, node) for each parameter tensor whose gradient the launch writes or adds to. `node` is the node
  /// that the parameter belongs to.
  template <class F>
  constexpr void for_each_parameter_gradient(const Launch& launch, F f) const {
    for (const ParameterUse& use : launch.parameters)
      if (use.gradient) f(use.parameter, launch.node);
    if (launch.sums < 0) return;
    const AffineTable& affine = affines[activations[launch.sums].affine];
    for (int i = 0; i < 2 && affine.parameter >= 0; ++i) f(affine.parameter + i, affine.node);
  }
};

/// The plan that is run: views of static tables (trace.hpp) or of a draft's tables.
struct Plan : BasicPlan<TableView> {};

/// A plan while a Planner makes it. It reads the graph where that lies.
struct PlanDraft : BasicPlan<GrowingTable> {
  constexpr explicit PlanDraft(const Graph& of) : BasicPlan{{}, of, {}, {}, {}, {}, {}, {}} {}
  /// A copy that can be changed.
  constexpr explicit PlanDraft(const Plan& of) : BasicPlan{of, of.graph, {}, {}, {}, {}, {}, {}} {
    const auto copy = [](const auto& from, auto& to) {
      for (const auto& item : from) to.push(item);
    };
    copy(of.tensors, tensors), copy(of.affines, affines), copy(of.activations, activations);
    copy(of.maps, maps), copy(of.values, values), copy(of.launches, launches);
  }

  constexpr operator Plan() const& {  // NOLINT: a draft is read as any plan, while it lives
    return {{*this, graph, tensors, affines, activations, maps, values, launches}};
  }
  operator Plan() const&& = delete;
};

}  // namespace halogen
