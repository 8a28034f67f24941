// Graph -> plan: constexpr code that fuses pointwise work into readers, plans the adjoint and finds every lifetime.
#pragma once

#include "halogen/plan/plan_order.hpp"
#include "halogen/plan/plan_values.hpp"

namespace halogen {

/// Walks the graph forward, then backward; each node's Operation emits its launches through this interface.
class Planner : public PlanValues {
 public:
  constexpr Planner(const GraphDraft& graph, PlanKind kind) : PlanValues(graph), kind_(kind) {
    plan_.training = kind != PlanKind::inference;
    plan_.input_gradient_wanted = kind == PlanKind::training_with_input_gradient || kind == PlanKind::vjp;
    std::ranges::fill(due_, -1);
  }

  constexpr PlanDraft plan() && {
    Value input;
    StoredTensor image;
    image.channels = plan_.graph.nodes[0].channels;
    image.external = true;
    image.requires_gradient = plan_.input_gradient_wanted;
    input.sources.push({plan_.tensors.push(image), -1, {}, false, image.channels});
    values_[0] = input;
    for (int i = 1; i < plan_.graph.nodes.size(); ++i)
      if (live_[i]) plan_.graph.nodes[i].operation->forward(*this, plan_.graph.nodes[i]);
    finish_output();
    plan_.first_backward = plan_.launches.size();
    if (plan_.training) {
      kind_ == PlanKind::vjp ? take_cotangent() : seed();
      for (int i = plan_.graph.nodes.size(); i-- > 1;)
        if (live_[i]) vjp_with_stores(i);
    }
    if (plan_.input_gradient_wanted) plan_.input_gradient = gradient_of_input();
    find_lifetimes(plan_);
    number_stages(plan_);
    return plan_;
  }

  // -- for forward ----------------------------------------------------------------------------------------------
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
    bool rides = node.index != plan_.graph.output;
    for (const Node& other : plan_.graph.nodes)
      if (live_[other.index] && std::ranges::count(other.inputs, node.index) > 0) rides &= other.operation->reads_maps;
    if (!rides) return emit_forward(node, launch);
    PointMap map;
    map.functor = functor;
    for (const Read& operand : launch.reads) map.inputs[map.count++] = operand.index;
    map.parameters = launch.parameters.size();
    if (map.parameters > 0) map.parameter = launch.parameters[0].parameter;
    const int tensor = new_tensor(node.channels, node.level, false);
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
      sum.read({Read::Role::value, number_of(*term), Pattern::point()});
    }
    emit_forward(node, sum);
  }

  /// Writes a value out so that it is one plain stored tensor: a norm needs its moments, a second resampling its map.
  constexpr Value stored(const Node& node, const Value& value) {
    count_reader(value);
    Launch store_value = launch<StoreValue>(node);
    store_value.input = number_of(value);
    store_value.read({Read::Role::value, store_value.input, Pattern::point()});
    const Value result = store(store_value, value.channels(), value.level);
    stores_.push({node.index, plan_.launches.size() - 1});
    return result;
  }

  /// A norm over a stored tensor; the launch that wrote the tensor gathers its moments, one of its own those of the
  /// user's field.
  constexpr int add_norm(const Norm& norm, const Node& node) {
    const int index = plan_.norms.push(norm);
    if (plan_.tensors[norm.tensor].external) {
      Launch moments = launch<Moments>(node);
      moments.output = norm.tensor;
      emit(moments);
    }
    for (Launch& launch : plan_.launches.items)
      if (launch.output == norm.tensor && launch.statistics < 0) {
        launch.statistics = index;
        break;
      }
    return index;
  }

  // -- for vjp --------------------------------------------------------------------------------------------------
  /// The activation to read for the gradient of what `node` stored; -1 where none is due.
  constexpr int gradient_of(const Node& node) {
    return due_[node.index] >= 0 ? due_[node.index] : gradient_of_tensor(values_[node.index].sources[0].tensor);
  }

  /// The node's input once more, by a backward launch.
  constexpr Read read_again(const Node& node, Pattern pattern, int input = 0) {
    return {Read::Role::value, number_of(values_[node.inputs[input]]), pattern};
  }
  /// The gradient that gradient_of() found.
  static constexpr Read gradient(int activation, Pattern pattern) {
    return {Read::Role::gradient, activation, pattern};
  }
  /// Of the launch's input the one source that it differentiates.
  static constexpr Read own_source(Pattern pattern) { return {Read::Role::source, -1, pattern}; }
  /// What the node wrote forward.
  constexpr Read result(const Node& node) const {
    return {Read::Role::tensor, values_[node.index].sources[0].tensor, Pattern::point()};
  }

  /// A launch that is complete but for what follows from its kind.
  constexpr void emit(Launch launch) {
    if (launch.level < 0) launch.level = plan_.tensors[launch.output].level;
    const Node& node = plan_.graph.nodes[launch.node];
    const Value none;
    const Value& input = launch.input < 0 ? none : plan_.values[launch.input];
    launch.form = launch.kind->form(node, input, launch.source);
    const std::array<int, 3> grid = launch.kind->grid(node, input, launch.source);
    for (int d = 0; d < spatial_dimensions; ++d) launch.grid[d] = grid[d];
    for (const Read& operand : launch.reads)
      if (operand.role == Read::Role::value) take_map(launch, plan_.values[operand.index].sources[0].tensor);
    plan_.launches.push(launch);
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
    const int activation = find_activation(source);
    if (!needs_gradient(activation)) return;
    launch.source = i;
    if (source.resampled) {
      launch.output = new_tensor(source.channels, input.level, true);
      emit(launch);
      Launch adjoint;
      adjoint.kind = kind_of<ResamplingAdjoint>();
      adjoint.node = launch.node;
      adjoint.input = launch.input;
      adjoint.source = i;
      adjoint.read(gradient(as_it_stands(launch.output), Pattern::resampling()));
      launch = adjoint;
    }
    contribute(launch, activation);
  }

  /// The gradient of a sum is that of each term: terms share the one tensor, where nobody else adds to theirs, or add
  /// what others contribute to it. A term that has contributions already, or is part of a term, gets a copy.
  constexpr void emit_sum_gradients(const Node& node) {
    int reads = gradient_of(node);
    if (reads < 0) return;
    const Launch writer = plan_.launches[last_writer(values_[node.index].sources[0].tensor)];
    reads = unmasked(reads);
    if (writer.node != node.index) {  // an input's own launch writes the sum
      due_[writer.node] = reads;
      return share_with_term(node, number_of(values_[node.inputs[node.inputs[0] == writer.node]]), reads);
    }
    for (const Read& term : writer.reads) share_with_term(node, term.index, reads);
  }

 private:
  constexpr void share_with_term(const Node& node, int term, int reads) {
    Launch copy = launch<StoreGradient>(node);
    copy.input = term;
    copy.read(gradient(reads, Pattern::point()));
    for (int i = 0; i < plan_.values[term].sources.size(); ++i) {
      const Source source = plan_.values[term].sources[i];
      if (source.resampled || source.channels != node.channels || !share(find_activation(source), reads))
        emit_input_gradient(copy, i);
    }
  }

  struct StoreRecord {
    int node, launch;
  };

  /// The same gradient as it stands, without norm and function before it: the function's part is done by who wrote it
  /// last, as rows leave; a norm's takes a launch, and so does the gradient of a loss or one that others share.
  constexpr int unmasked(int reads) {
    const Activation activation = plan_.activations[reads];
    if (stands(reads)) return reads;
    const int writer = last_writer(activation.gradient);  // none of a cotangent that is given
    if (writer >= 0 && activation.norm < 0 && plan_.launches[writer].kind->common_output &&
        !shared_[activation.gradient]) {
      plan_.launches[writer].mask = activation.tensor;
      plan_.launches[writer].mask_function = activation.function;
      return as_it_stands(activation.gradient);
    }
    const StoredTensor& like = plan_.tensors[activation.tensor];
    return as_it_stands(stored_gradient(reads, like.channels, like.level));
  }

  /// Whether the activation takes the gradient that `reads` holds as its own, or as what its other readers add to.
  constexpr bool share(int activation, int reads) {
    Activation& a = plan_.activations[activation];
    if (!needs_gradient(activation)) return true;
    if (a.contributions > 0) return false;
    const int tensor = plan_.activations[reads].gradient;
    if (a.readers > 1) {
      addends_[activation] = tensor;
    } else {
      if (a.norm >= 0) {
        if (tensor == plan_.cotangent) return false;
        Launch& writer = plan_.launches[last_writer(tensor)];
        if (!writer.kind->common_output || writer.sums >= 0) return false;
        writer.sums = activation;
      }
      a.gradient = tensor;
    }
    a.contributions = 1;
    return shared_[tensor] = true;
  }

  /// Whether input `term` of a sum is the output of a launch that can add, that nobody else reads, and the other input
  /// one stored tensor as it was written before: then that launch writes the sum.
  constexpr bool add_as_rows_leave(const Node& node, int term) {
    const int adds = node.inputs[term], other = node.inputs[1 - term];
    const int tensor = values_[other].sources[0].tensor, by = last_writer(values_[adds].sources[0].tensor);
    if (by < 0 || last_writer(tensor) >= by || !is_raw(values_[other]) || readers_of(adds) != 1) return false;
    Launch& launch = plan_.launches[by];
    if (!launch.kind->adds_as_rows_leave || launch.node != adds) return false;
    count_reader(values_[other]);
    launch.accumulate = true;
    launch.addend = tensor;
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
    bool requires_gradient = !launch.parameters.empty();
    for (const Read& operand : launch.reads)
      for (const Source& source : plan_.values[operand.index].sources)
        requires_gradient |= source.norm >= 0 || plan_.tensors[source.tensor].requires_gradient;
    return requires_gradient;
  }

  constexpr Value plain(int tensor, int level) const {
    Value value;
    value.level = level;
    value.sources.push({tensor, -1, {}, false, plan_.tensors[tensor].channels});
    return value;
  }

  /// The launch computes the tensor as rows enter it, if it is a map.
  constexpr void take_map(Launch& launch, int tensor) const {
    if (plan_.tensors[tensor].map < 0) return;
    const PointMap& map = plan_.maps[plan_.tensors[tensor].map];
    launch.form.map = map.functor;
    launch.map_use = launch.parameters.size();
    for (int i = 0; i < map.parameters; ++i) launch.use(map.parameter + i);
  }

  /// A gradient written out as it is of the stored tensor, without what its readers see.
  constexpr int stored_gradient(int reads, int channels, int level) {
    Launch launch;
    launch.kind = kind_of<AddGradients>();
    launch.node = 0;
    launch.read(gradient(reads, Pattern::point()));
    launch.output = new_tensor(channels, level, true);
    emit(launch);
    return launch.output;
  }

  /// `launch` writes or adds its share of the activation's gradient; the last share gathers the norm's sums.
  constexpr void contribute(Launch launch, int activation) {
    Activation& a = plan_.activations[activation];
    const StoredTensor& tensor = plan_.tensors[a.tensor];
    if (a.gradient < 0) {
      a.gradient = new_tensor(tensor.channels, tensor.level, true);
      if (addends_[activation] > 0) launch.addend = addends_[activation];
    }
    launch.output = a.gradient;
    launch.accumulate = a.contributions++ > 0;
    if (a.contributions == a.readers && a.norm >= 0) launch.sums = activation;
    emit(launch);
  }

  constexpr int gradient_of_tensor(int tensor) {
    if (!plan_.tensors[tensor].requires_gradient) return -1;
    StaticVector<int, 8> views;
    for (int i = 0; i < plan_.activations.size(); ++i)
      if (plan_.activations[i].tensor == tensor && plan_.activations[i].gradient >= 0) views.push(i);
    if (views.empty()) return -1;
    if (views.size() == 1) return views[0];
    int plain = 0;  // a view whose gradient stands as it is needs no pass: the first other one adds to it
    while (plain < views.size() && !stands(views[plain])) ++plain;
    const int sum = new_tensor(plan_.tensors[tensor].channels, plan_.tensors[tensor].level, true);
    bool first = true;
    for (int i = 0; i < views.size(); ++i) {
      if (i == plain) continue;
      Launch launch;
      launch.kind = kind_of<AddGradients>();
      launch.node = 0;
      launch.read(gradient(views[i], Pattern::point()));
      launch.output = sum;
      if (first && plain < views.size()) launch.addend = plan_.activations[views[plain]].gradient;
      launch.accumulate = !first || launch.addend >= 0;
      first = false;
      emit(launch);
    }
    return as_it_stands(sum);
  }

  /// One stored tensor with the gradient of the input; it outlives the step, for the user.
  constexpr int gradient_of_input() {
    const int reads = gradient_of_tensor(0);
    const Activation activation = plan_.activations[reads];
    if (stands(reads)) return activation.gradient;
    return stored_gradient(reads, plan_.tensors[0].channels, 0);
  }

  /// The prediction is one plain stored tensor, so that a loss and the user can read it.
  constexpr void finish_output() {
    Value output = values_[plan_.graph.output];
    if (!is_raw(output) || plan_.tensors[output.sources[0].tensor].external)
      output = stored(plan_.graph.nodes[plan_.graph.output], output);
    plan_.prediction = output.sources[0].tensor;
    prediction_ = output;
  }

  constexpr void seed() {
    count_reader(prediction_);
    Launch loss;
    loss.kind = kind_of<LossLaunch>();
    loss.node = plan_.graph.output;
    loss.input = number_of(prediction_);
    loss.source = 0;
    loss.read({Read::Role::value, loss.input, Pattern::point()});
    contribute(loss, find_activation(prediction_.sources[0]));
  }

  /// The prediction's gradient is the user's field, read where it lies: no launch reads the prediction beside it, and
  /// none writes to it.
  constexpr void take_cotangent() {
    const int tensor = prediction_.sources[0].tensor;
    plan_.cotangent = new_tensor(plan_.tensors[tensor].channels, plan_.tensors[tensor].level, true);
    plan_.tensors[plan_.cotangent].external = true;
    shared_[plan_.cotangent] = true;
    Activation& a = plan_.activations[find_activation(prediction_.sources[0])];
    a.gradient = plan_.cotangent;
    a.readers = a.contributions = 1;
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
      if (reads < 0) continue;
      Launch adjoint = launch<StoreGradient>(plan_.graph.nodes[node]);
      adjoint.input = forward.input;
      emit_input_gradients(adjoint.read(gradient(reads, Pattern::point())));
    }
  }

  PlanKind kind_;
  Value prediction_;
  bool shared_[graph_capacity] = {};  ///< gradients that are more than one activation's
  int addends_[graph_capacity] = {};  ///< gradients that activations' contributions are added to; 0: none
  int due_[graph_capacity];           ///< gradients of convolutions that write a sum; -1: its tensor's
  StaticVector<StoreRecord, graph_capacity> stores_;
};

/// The plan of a traced graph; training plans forward and backward together, inference keeps nothing.
constexpr PlanDraft make_plan(const GraphDraft& graph, PlanKind kind) { return Planner(graph, kind).plan(); }

}  // namespace halogen
