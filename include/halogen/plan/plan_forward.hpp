// Planning the forward pass: launches that write values, values that nobody writes, sums and affines.
#pragma once

#include "halogen/plan/plan_values.hpp"

namespace halogen {

/// What the forward() of an operation can do to an unfinished plan.
class PlanForward : public PlanValues {
 public:
  /// A launch of type L for `node`, with the node's input of this number. The operation adds what it reads and uses.
  template <class L>
  constexpr Launch launch(const Node& node, int input = 0) {
    Launch launch;
    launch.kind = kind_of<L>();
    launch.node = node.index;
    if (node.inputs[input] >= 0) launch.input = number_of(values_[node.inputs[input]]);
    return launch;
  }

  /// A forward launch reads the node's input. This counts one reader more for each source of it.
  constexpr Read read(const Node& node, Pattern pattern, int input = 0) {
    count_reader(values_[node.inputs[input]]);
    return read_again(node, pattern, input);
  }

  /// The launch writes a new stored tensor with the node's channels and level. The tensor is the node's value.
  constexpr void emit_forward(const Node& node, const Launch& launch) {
    set_value(node, store(launch, node.channels, node.level));
  }

  /// If there is a backward pass, the launch also writes a second tensor, which backward launches of its node read
  /// (PlanGradients::kept). Call this once, when the launch has its operands.
  constexpr void keep(Launch& launch, int channels, int level) {
    if (launch.reads.empty() || launch.kept >= 0) throw "keep() is called once, after the launch has its operands";
    if (plan_.training && requires_gradient(launch)) launch.kept = new_tensor(channels, level, false);
  }

  /// A map of the launch's operands, point by point, by the functor of that address. If all readers can compute the map
  /// from the rows that they read, they do so: no launch computes it and no memory holds it. Else the launch writes it.
  constexpr void emit_map(const Node& node, const char* functor, const Launch& launch) {
    bool rides = !plan_.graph.is_output(node.index);
    for (const Node& other : plan_.graph.nodes)
      if (live_[other.index] && std::ranges::count(other.inputs, node.index) > 0) rides &= other.operation->reads_maps;
    if (!rides) return emit_forward(node, launch);
    PointMap map;
    map.functor = functor;
    for (const Read& operand : launch.reads) map.inputs[static_cast<std::size_t>(map.count++)] = operand.value();
    map.parameters = launch.parameters.size();
    if (map.parameters > 0) map.parameter = launch.parameters[0].parameter;
    const TensorId tensor = new_tensor(node.channels, node.level, false);
    plan_.tensors[tensor].map = plan_.maps.push(map);
    plan_.tensors[tensor].requires_gradient = requires_gradient(launch);
    set_value(node, plain(tensor, node.level));
  }

  /// The sum of two values as one stored tensor. All readers treat it like any other stored tensor. If a launch writes
  /// one of the two, can add a tensor to the rows that it writes, and nobody else reads its output, then this launch
  /// adds the other value. Else a launch of type L writes the sum.
  template <class L>
  constexpr void emit_sum(const Node& node, Value first, Value second) {
    for (int term : {0, 1})
      if (add_as_rows_leave(node, term)) return;
    if (first.sources.size() + second.sources.size() > 4) {
      Value& wide = first.sources.size() < second.sources.size() ? second : first;
      wide = stored(node, wide);
    }
    if (first.sources.size() + second.sources.size() > 4) return emit_sum<L>(node, first, second);
    Launch sum = launch<L>(node);
    for (const Value* term : {&first, &second}) {
      count_reader(*term);
      sum.read({number_of(*term), Pattern::point()});
    }
    emit_forward(node, sum);
  }

  /// Writes out a value, so that it is one plain stored tensor. An affine needs this for its moments, and a
  /// second resampling for its index map.
  constexpr Value stored(const Node& node, const Value& value) {
    count_reader(value);
    Launch store_value = launch<StoreValue>(node);
    store_value.input = number_of(value);
    store_value.read({store_value.input, Pattern::point()});
    const Value result = store(store_value, value.channels(), value.level);
    stores_.push({node.index, plan_.launches.size() - 1});
    return result;
  }

  /// A forward launch reads the node's input as one stored tensor whose memory has the layout of a field. If the value
  /// is not such a tensor, it is written out here, once for all who read it in this way. Other readers read the value
  /// as it is.
  constexpr Read read_field(const Node& node, int input) {
    ValueId& field = fields_[node.inputs[input]];
    if (field < 0) {
      Value value = values_[node.inputs[input]];
      if (!value.is_raw() || is_map(value) || plan_.tensors[value.sources[0].tensor].external)
        value = stored(node, value);
      plan_.tensors[value.sources[0].tensor].as_field = true;
      field = number_of(value);
    }
    count_reader(plan_.values[field]);
    return read_field_again(node, input);
  }
  /// The same for a backward launch.
  constexpr Read read_field_again(const Node& node, int input) const {
    return {fields_[node.inputs[input]], Pattern::point()};
  }
  /// The tensor that the node's launch has written gets the layout of a field too.
  constexpr void lay_out_as_field(const Node& node) {
    plan_.tensors[values_[node.index].sources[0].tensor].as_field = true;
  }

  /// A launch that reads a stored tensor and only gathers its sums.
  template <class L>
  constexpr Launch sums_of(TensorId tensor, int node) const {
    Launch sums;
    sums.kind = kind_of<L>();
    sums.node = node;
    sums.level = plan_.tensors[tensor].level;
    return sums.read({tensor, Pattern::point()});
  }

  /// The affine of a stored tensor that is made from its moments. The launch that wrote the tensor gathers them if it
  /// can, else an extra launch does.
  constexpr AffineTableId add_affine(AffineTable affine, const Node& node) {
    affine.node = node.index;
    const AffineTableId index(plan_.affines.push(affine));
    const int writer = last_writer(affine.tensor);
    if (writer >= 0 && plan_.launches[writer].kind->common_output) {
      plan_.launches[writer].statistics = index;
      return index;
    }
    Launch moments = sums_of<Moments>(affine.tensor, node.index);
    moments.statistics = index;
    emit(moments);
    return index;
  }

  /// An affine whose tables a launch of type L computes, from parameters and buffers alone.
  template <class L>
  constexpr AffineTableId add_frozen_affine(AffineTable affine, const Node& node, int parameters) {
    affine.node = node.index;
    Launch frozen = launch<L>(node);
    frozen.level = plan_.tensors[affine.tensor].level;
    for (int i = 0; i < parameters; ++i) frozen.use(node.parameter + i);
    emit(frozen);
    return AffineTableId(plan_.affines.push(affine));
  }

  /// Whether a parameter is trained: it is neither a buffer nor a parameter of a frozen layer.
  constexpr bool trains(int parameter) const { return !plan_.graph.parameters[parameter].buffer; }

  /// Whether the plan is one for training. Then statistics of a batch are those of the values of the step.
  constexpr bool is_training() const { return plan_.training; }

  /// A backward launch reads the node's input again.
  constexpr Read read_again(const Node& node, Pattern pattern, int input = 0) {
    return {number_of(values_[node.inputs[input]]), pattern};
  }
  /// Adds a launch to the plan and completes it with what follows from its kind. A launch that only sums gradients of
  /// parameters that are not trained is dropped.
  constexpr void emit(Launch launch) {
    if (launch.output < 0 && sums_for_nobody(launch)) return;
    if (launch.level < 0) launch.level = plan_.tensors[launch.output].level;
    const Node& node = plan_.graph.nodes[launch.node];
    const Value none;
    const Value& input = launch.input < 0 ? none : plan_.values[launch.input];
    launch.form = launch.kind->form(node, input, launch.source);
    const std::array<int, 3> grid = launch.kind->grid(node, input, launch.source);
    for (int d = 0; d < spatial_dimensions; ++d) launch.grid[d] = grid[d];
    for (const Read& operand : launch.reads)
      if (operand.value() >= 0) take_map(launch, plan_.values[operand.value()].sources[0].tensor);
    plan_.launches.push(launch);
  }

 protected:
  constexpr bool sums_for_nobody(const Launch& launch) const {
    bool sums = false, wanted = false;
    for (const ParameterUse& use : launch.parameters) {
      sums |= use.gradient;
      wanted |= use.gradient && !plan_.graph.parameters[use.parameter].buffer;
    }
    return sums && !wanted;
  }

  struct StoreRecord {
    int node, launch;
  };

  constexpr explicit PlanForward(const Graph& graph) : PlanValues(graph), fields_(graph.nodes.size()) {}

  /// If possible, lets the launch that writes input `term` of a sum write the whole sum, and returns true. The launch
  /// must be able to add, and nobody else may read its output. The other input must be one stored tensor as it was
  /// written, and written earlier.
  constexpr bool add_as_rows_leave(const Node& node, int term) {
    const int adds = node.inputs[term], other = node.inputs[1 - term];
    const TensorId tensor = values_[other].sources[0].tensor;
    const int by = last_writer(values_[adds].sources[0].tensor);
    if (by < 0 || last_writer(tensor) >= by || !values_[other].is_raw() || readers_of(adds) != 1) return false;
    Launch& launch = plan_.launches[by];
    if (!launch.kind->adds_as_rows_leave || launch.node != adds) return false;
    count_reader(values_[other]);
    launch.accumulate = true;
    launch.addend = tensor;
    plan_.tensors[launch.output].requires_gradient |= plan_.tensors[tensor].requires_gradient;
    set_value(node, values_[adds]);
    return true;
  }

  constexpr Value store(Launch launch, int channels, int level) {
    launch.output = new_tensor(channels, level, false);
    plan_.tensors[launch.output].requires_gradient = requires_gradient(launch);
    emit(launch);
    return plain(launch.output, level);
  }

  constexpr bool requires_gradient(const Launch& launch) const {
    bool requires_gradient = false;
    for (const ParameterUse& use : launch.parameters)
      requires_gradient |= !plan_.graph.parameters[use.parameter].buffer;
    for (const Read& operand : launch.reads)
      for (const Source& source : plan_.values[operand.value()].sources)
        requires_gradient |= is_trained(source.affine) || plan_.tensors[source.tensor].requires_gradient;
    return requires_gradient;
  }

  constexpr Value plain(TensorId tensor, int level) const {
    Value value;
    value.level = level;
    value.sources.push({tensor, {}, {}, false, plan_.tensors[tensor].channels});
    return value;
  }

  /// If the tensor is a map, the launch computes it from the rows that it reads.
  constexpr void take_map(Launch& launch, TensorId tensor) const {
    if (plan_.tensors[tensor].map < 0) return;
    const PointMap& map = plan_.maps[plan_.tensors[tensor].map];
    launch.form.map = map.functor;
    launch.map_use = launch.parameters.size();
    for (int i = 0; i < map.parameters; ++i) launch.use(map.parameter + i);
  }

  GrowingTable<StoreRecord> stores_;
  GrowingTable<ValueId> fields_;  ///< for each node: the value that read_field() reads; negative: none yet
};

}  // namespace halogen
