// Planning forward: launches that write values, values that nobody writes, sums and norms.
#pragma once

#include "halogen/plan/plan_values.hpp"

namespace halogen {

/// What operations ask of a plan in the making by their forward().
class PlanForward : public PlanValues {
 public:
  /// A launch of type L for `node`, of its input-th input; what it reads and uses is the operation's to say.
  template <class L>
  constexpr Launch launch(const Node& node, int input = 0) {
    Launch launch;
    launch.kind = kind_of<L>();
    launch.node = node.index;
    if (node.inputs[input] >= 0) launch.input = number_of(values_[node.inputs[input]]);
    return launch;
  }

  /// The node's input, read by a forward launch: from now on its sources have one reader more.
  constexpr Read read(const Node& node, Pattern pattern, int input = 0) {
    count_reader(values_[node.inputs[input]]);
    return read_again(node, pattern, input);
  }

  /// The launch writes a new stored tensor with the node's channels and level, which is the node's value.
  constexpr void emit_forward(const Node& node, const Launch& launch) {
    set_value(node, store(launch, node.channels, node.level));
  }

  /// A map of the launch's operands, point by point, by the functor of that address. Where all who read it can compute
  /// it as rows enter them, no launch does and no memory holds it; else the launch writes it.
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

  /// The sum of two values by a launch of type L, one stored tensor: a norm's moments, an activation layer and every
  /// reader take it as any other. A launch that can add a tensor to what it writes, and whose output nobody else reads,
  /// adds the other term as its rows leave.
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

  /// Writes a value out so that it is one plain stored tensor: a norm needs its moments, a second resampling its map.
  constexpr Value stored(const Node& node, const Value& value) {
    count_reader(value);
    Launch store_value = launch<StoreValue>(node);
    store_value.input = number_of(value);
    store_value.read({store_value.input, Pattern::point()});
    const Value result = store(store_value, value.channels(), value.level);
    stores_.push({node.index, plan_.launches.size() - 1});
    return result;
  }

  /// The node's input as one stored tensor that lies in memory as a field does, read by a forward launch. Where the
  /// value is not such a tensor, all who read it so share one that is written here; others read the value as it is.
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
  /// The same by a backward launch.
  constexpr Read read_field_again(const Node& node, int input) const {
    return {fields_[node.inputs[input]], Pattern::point()};
  }
  /// What the node's launch has written lies so too.
  constexpr void lay_out_as_field(const Node& node) {
    plan_.tensors[values_[node.index].sources[0].tensor].as_field = true;
  }

  /// A norm over a stored tensor; the launch that wrote the tensor gathers its moments, one of its own those of the
  /// user's field.
  constexpr NormId add_norm(Norm norm, const Node& node) {
    norm.node = node.index;
    const NormId index(plan_.norms.push(norm));
    if (plan_.tensors[norm.tensor].external) {
      Launch moments = launch<Moments>(node);
      moments.output = norm.tensor;
      emit(moments);
    }
    for (Launch& launch : plan_.launches)
      if (launch.output == norm.tensor && launch.statistics < 0) {
        launch.statistics = index;
        break;
      }
    return index;
  }

  /// The same of a norm whose tables a launch of type L makes, from parameters and buffers alone.
  template <class L>
  constexpr NormId add_frozen_norm(Norm norm, const Node& node, int parameters) {
    norm.node = node.index;
    Launch frozen = launch<L>(node);
    frozen.level = plan_.tensors[norm.tensor].level;
    for (int i = 0; i < parameters; ++i) frozen.use(node.parameter + i);
    emit(frozen);
    return NormId(plan_.norms.push(norm));
  }

  /// Whether a parameter is trained: no buffer, and of no frozen layer.
  constexpr bool trains(int parameter) const { return !plan_.graph.parameters[parameter].buffer; }

  /// Whether statistics are those of the values at hand.
  constexpr bool is_training() const { return plan_.training; }

  /// The node's input once more, by a backward launch.
  constexpr Read read_again(const Node& node, Pattern pattern, int input = 0) {
    return {number_of(values_[node.inputs[input]]), pattern};
  }
  /// A launch that is complete but for what follows from its kind. One that only sums gradients of parameters that are
  /// not trained is dropped.
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

  constexpr explicit PlanForward(const GraphDraft& graph) : PlanValues(graph) {}

  /// Whether input `term` of a sum is the output of a launch that can add, that nobody else reads, and the other input
  /// one stored tensor as it was written before: then that launch writes the sum.
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
        requires_gradient |= is_trained(source.norm) || plan_.tensors[source.tensor].requires_gradient;
    return requires_gradient;
  }

  constexpr Value plain(TensorId tensor, int level) const {
    Value value;
    value.level = level;
    value.sources.push({tensor, {}, {}, false, plan_.tensors[tensor].channels});
    return value;
  }

  /// The launch computes the tensor as rows enter it, if it is a map.
  constexpr void take_map(Launch& launch, TensorId tensor) const {
    if (plan_.tensors[tensor].map < 0) return;
    const PointMap& map = plan_.maps[plan_.tensors[tensor].map];
    launch.form.map = map.functor;
    launch.map_use = launch.parameters.size();
    for (int i = 0; i < map.parameters; ++i) launch.use(map.parameter + i);
  }

  StaticVector<StoreRecord, graph_capacity> stores_;
  ValueId fields_[graph_capacity];  ///< of each node's value: what read_field() reads; none yet where negative
};

}  // namespace halogen
