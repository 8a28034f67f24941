// Graph -> plan: constexpr code that fuses pointwise work into readers, plans the adjoint and finds every lifetime.
#pragma once

#include "halogen/expr/plan.hpp"

namespace halogen {

/// Walks the graph forward, then backward; each node's Operation emits its launches through this interface.
class Planner {
 public:
  constexpr Planner(const Graph& graph, PlanKind kind) : plan_(graph) {
    plan_.training = kind != PlanKind::inference;
    plan_.input_gradient_wanted = kind == PlanKind::training_with_input_gradient;
  }

  constexpr Plan plan() && {
    mark_live();
    Value input;
    StoredTensor image;
    image.channels = plan_.graph.nodes[0].channels;
    image.external = true;
    image.requires_gradient = plan_.input_gradient_wanted;
    input.sources.push({plan_.tensors.push(image), -1, false, false, image.channels});
    values_[0] = input;
    for (int i = 1; i < plan_.graph.nodes.size(); ++i)
      if (live_[i]) plan_.graph.nodes[i].operation->forward(*this, plan_.graph.nodes[i]);
    finish_output();
    plan_.first_backward = plan_.launches.size();
    if (plan_.training) {
      seed();
      for (int i = plan_.graph.nodes.size(); i-- > 1;)
        if (live_[i]) vjp_with_stores(i);
    }
    if (plan_.input_gradient_wanted) plan_.input_gradient = gradient_of_input();
    find_lifetimes();
    number_stages();
    return plan_;
  }

  // -- for forward ----------------------------------------------------------------------------------------------
  constexpr const Value& value_of(int node) const { return values_[node]; }
  constexpr void set_value(const Node& node, const Value& value) { values_[node.index] = value; }

  /// A value that a launch of `node` reads: from now on its sources have one reader more.
  constexpr const Value& read(const Node& node) {
    const Value& value = values_[node.inputs[0]];
    count_reader(value);
    return value;
  }

  /// A new stored tensor written by `launch`, with the node's channels and level, and its plain value.
  constexpr void emit_forward(const Node& node, LaunchKind kind, const Value& input) {
    set_value(node, store(node.index, kind, input, node.channels, node.level));
  }

  /// Writes a value out so that it is one plain stored tensor: a norm needs its moments, a second resampling its map.
  constexpr Value stored(const Node& node, const Value& value) {
    count_reader(value);
    const Value result = store(node.index, LaunchKind::store, value, value.channels(), value.level);
    stores_.push({node.index, plan_.launches.size() - 1});
    return result;
  }

  /// A norm over a stored tensor; the launch that wrote the tensor gathers its moments.
  constexpr int add_norm(const Norm& norm) {
    const int index = plan_.norms.push(norm);
    for (Launch& launch : plan_.launches.items)
      if (launch.output == norm.tensor && launch.statistics < 0) {
        launch.statistics = index;
        break;
      }
    return index;
  }

  /// Whether `value` is one stored tensor as it was written, whose moments nobody has asked for.
  constexpr bool is_plain(const Value& value) const {
    if (value.sources.size() != 1) return false;
    const Source& source = value.sources[0];
    if (source.norm >= 0 || source.relu || source.resampled || plan_.tensors[source.tensor].external) return false;
    for (const Norm& norm : plan_.norms)
      if (norm.tensor == source.tensor) return false;
    return true;
  }

  // -- for vjp --------------------------------------------------------------------------------------------------
  /// The activation to read for the gradient of what `node` stored; -1 where none is due.
  constexpr int gradient_of(const Node& node) { return gradient_of_tensor(values_[node.index].sources[0].tensor); }

  constexpr void emit(const Launch& launch) { plan_.launches.push(launch); }

  /// One launch of `kind` for each source of `input` that needs a gradient; a resampled source gets it at the
  /// reader's level first, then by the adjoint of the resampling.
  constexpr void emit_input_gradients(const Node& node, LaunchKind kind, const Value& input, int reads) {
    for (int i = 0; i < input.sources.size(); ++i) {
      const Source& source = input.sources[i];
      const int activation = find_activation(source);
      if (!needs_gradient(activation)) continue;
      Launch launch;
      launch.kind = kind;
      launch.node = node.index;
      launch.input = input;
      launch.source = i;
      launch.reads = reads;
      if (source.resampled) {
        launch.output = new_tensor(source.channels, input.level, true);
        plan_.launches.push(launch);
        Activation fine;  // the gradient at the fine level, read as it stands
        fine.gradient = launch.output;
        launch.kind = LaunchKind::upsample_backward;
        launch.reads = plan_.activations.push(fine);
      }
      contribute(launch, activation);
    }
  }

 private:
  struct StoreRecord {
    int node, launch;
  };

  constexpr void mark_live() {
    live_[plan_.graph.output] = true;
    for (int i = plan_.graph.nodes.size(); i-- > 0;)
      if (live_[i])
        for (int input : plan_.graph.nodes[i].inputs)
          if (input >= 0) live_[input] = true;
  }

  constexpr int new_tensor(int channels, int level, bool gradient) {
    StoredTensor tensor;
    tensor.channels = channels;
    tensor.level = level;
    tensor.gradient = gradient;
    return plan_.tensors.push(tensor);
  }

  constexpr Value store(int node, LaunchKind kind, const Value& input, int channels, int level) {
    Launch launch;
    launch.kind = kind;
    launch.node = node;
    launch.input = input;
    launch.output = new_tensor(channels, level, false);
    bool requires_gradient = kind == LaunchKind::conv_forward;
    for (const Source& source : input.sources)
      requires_gradient |= source.norm >= 0 || plan_.tensors[source.tensor].requires_gradient;
    plan_.tensors[launch.output].requires_gradient = requires_gradient;
    plan_.launches.push(launch);
    Value value;
    value.level = level;
    value.sources.push({launch.output, -1, false, false, channels});
    return value;
  }

  constexpr int find_activation(const Source& source) {
    for (int i = 0; i < plan_.activations.size(); ++i) {
      const Activation& a = plan_.activations[i];
      if (a.tensor == source.tensor && a.norm == source.norm && a.relu == source.relu) return i;
    }
    Activation activation;
    activation.tensor = source.tensor;
    activation.norm = source.norm;
    activation.relu = source.relu;
    return plan_.activations.push(activation);
  }

  constexpr void count_reader(const Value& value) {
    for (const Source& source : value.sources) ++plan_.activations[find_activation(source)].readers;
  }

  constexpr bool needs_gradient(int activation) const {
    const Activation& a = plan_.activations[activation];
    return a.norm >= 0 || plan_.tensors[a.tensor].requires_gradient;
  }

  /// `launch` writes or adds its share of the activation's gradient; the last share gathers the norm's sums.
  constexpr void contribute(Launch launch, int activation) {
    Activation& a = plan_.activations[activation];
    const StoredTensor& tensor = plan_.tensors[a.tensor];
    if (a.gradient < 0) a.gradient = new_tensor(tensor.channels, tensor.level, true);
    launch.output = a.gradient;
    launch.accumulate = a.contributions++ > 0;
    if (a.contributions == a.readers && a.norm >= 0) launch.sums = activation;
    plan_.launches.push(launch);
  }

  constexpr int gradient_of_tensor(int tensor) {
    if (!plan_.tensors[tensor].requires_gradient) return -1;
    StaticVector<int, 8> views;
    for (int i = 0; i < plan_.activations.size(); ++i)
      if (plan_.activations[i].tensor == tensor && plan_.activations[i].gradient >= 0) views.push(i);
    if (views.empty()) return -1;
    if (views.size() == 1) return views[0];
    Activation sum;
    sum.gradient = new_tensor(plan_.tensors[tensor].channels, plan_.tensors[tensor].level, true);
    for (int i = 0; i < views.size(); ++i) {
      Launch launch;
      launch.kind = LaunchKind::gradient_store;
      launch.node = 0;
      launch.reads = views[i];
      launch.output = sum.gradient;
      launch.accumulate = i > 0;
      plan_.launches.push(launch);
    }
    return plan_.activations.push(sum);
  }

  /// One stored tensor with the gradient of the input; it outlives the step, for the user.
  constexpr int gradient_of_input() {
    const int reads = gradient_of_tensor(0);
    const Activation activation = plan_.activations[reads];
    if (activation.norm < 0 && !activation.relu) return activation.gradient;
    Launch launch;
    launch.kind = LaunchKind::gradient_store;
    launch.node = 0;
    launch.reads = reads;
    launch.output = new_tensor(plan_.tensors[0].channels, 0, true);
    plan_.launches.push(launch);
    return launch.output;
  }

  /// The prediction is one plain stored tensor, so that a loss and the user can read it.
  constexpr void finish_output() {
    Value output = values_[plan_.graph.output];
    const bool plain = output.sources.size() == 1 && output.sources[0].norm < 0 && !output.sources[0].relu &&
                       !output.sources[0].resampled && !plan_.tensors[output.sources[0].tensor].external;
    if (!plain) output = stored(plan_.graph.nodes[plan_.graph.output], output);
    plan_.prediction = output.sources[0].tensor;
    prediction_ = output;
  }

  constexpr void seed() {
    count_reader(prediction_);
    Launch loss;
    loss.kind = LaunchKind::loss;
    loss.node = plan_.graph.output;
    loss.input = prediction_;
    loss.source = 0;
    contribute(loss, find_activation(prediction_.sources[0]));
  }

  /// A node's stores come after what they serve, so their adjoint runs in reverse order of emission.
  constexpr void vjp_with_stores(int node) {
    const bool output_stored = node == plan_.graph.output && plan_.prediction != values_[node].sources[0].tensor;
    if (output_stored) store_vjp(node, true);
    plan_.graph.nodes[node].operation->vjp(*this, plan_.graph.nodes[node]);
    store_vjp(node, false);
  }

  constexpr void store_vjp(int node, bool of_output) {
    for (int i = stores_.size(); i-- > 0;) {
      if (stores_[i].node != node) continue;
      const Launch forward = plan_.launches[stores_[i].launch];
      if ((forward.output == plan_.prediction) != of_output) continue;
      const int reads = gradient_of_tensor(forward.output);
      if (reads >= 0) emit_input_gradients(plan_.graph.nodes[node], LaunchKind::store_backward, forward.input, reads);
    }
  }

  constexpr void find_lifetimes() {
    for (int i = 0; i < plan_.launches.size(); ++i) {
      const Launch& launch = plan_.launches[i];
      if (launch.output >= 0) {
        StoredTensor& output = plan_.tensors[launch.output];
        if (output.first_launch < 0) output.first_launch = i;
        output.last_write = output.last_launch = i;
      }
      plan_.for_each_read(launch, [&](int tensor) { plan_.tensors[tensor].last_launch = i; });
    }
    plan_.tensors[plan_.prediction].last_launch = plan_.launches.size();  // the user may read them after the step
    if (plan_.input_gradient >= 0) plan_.tensors[plan_.input_gradient].last_launch = plan_.launches.size();
  }

  /// A stage ends with the launch whose output is summed over ranks or completes a tensor that others read.
  constexpr void number_stages() {
    int stage = 0;
    for (int i = 0; i < plan_.launches.size(); ++i) {
      Launch& launch = plan_.launches[i];
      launch.stage = stage;
      const bool completes = launch.output >= 0 && plan_.tensors[launch.output].last_write == i;
      plan_.stages = stage + 1;
      if (completes || launch.statistics >= 0 || launch.sums >= 0) ++stage;
    }
  }

  Plan plan_;
  Value values_[graph_capacity];
  bool live_[graph_capacity] = {};
  Value prediction_;
  StaticVector<StoreRecord, graph_capacity> stores_;
};

/// The plan of a traced graph; training plans forward and backward together, inference keeps nothing.
constexpr Plan make_plan(const Graph& graph, PlanKind kind) { return Planner(graph, kind).plan(); }

}  // namespace halogen
