// What a planned model is: stored tensors, launches in order, sums and exchanges. Values, no types.
#pragma once

#include "halogen/graph/graph.hpp"
#include "halogen/stencil/winograd.hpp"

namespace halogen {

/// A stored tensor seen by a reader: normalised by `norm` and put through `function` where set, resampled to the
/// reader's level where its own differs. Nothing of this is ever written to memory.
struct Source {
  int tensor = -1;
  int norm = -1;
  Nonlinearity function;
  bool resampled = false;
  int channels = 0;
  bool linear = false;                 ///< resampled between points, not to the nearest one
  Edge pads[spatial_dimensions] = {};  ///< reflect, replicate: resampled to a field that a pad has made wider

  constexpr bool is_padded() const { return std::ranges::any_of(pads, has_images); }
};

/// How a source is seen at another resolution, for the kernel of its adjoint.
enum class Resampling { nearest, linear, padded };

/// A value of the network: sources side by side along the channels (a concatenation is two reads).
struct Value {
  StaticVector<Source, 4> sources;
  int level = 0;

  constexpr int channels() const {
    int sum = 0;
    for (const Source& source : sources) sum += source.channels;
    return sum;
  }
};

/// A tensor with storage in the arena (or the user's, for the input and a given cotangent).
struct StoredTensor {
  int channels = 0;
  int level = 0;
  bool external = false;           ///< the user's field, not in the arena
  bool gradient = false;           ///< holds a gradient
  bool requires_gradient = false;  ///< some parameter lies before it
  int first_launch = -1, last_write = -1, last_launch = -1;
};

struct Norm {
  int tensor = -1;
  int groups = 1;
  int channels = 0;
  int parameter = -1;  ///< gamma; beta follows
  double epsilon = 0;
};

/// A stored tensor as its readers see it, (tensor, norm, function). Its gradient is what backward stores; the
/// gradient of the stored tensor itself is recomputed from it by whoever reads it.
struct Activation {
  int tensor = -1;
  int norm = -1;
  Nonlinearity function;
  int gradient = -1;      ///< stored tensor that holds it
  int readers = 0;        ///< launches that will contribute
  int contributions = 0;  ///< that have

  /// Whether the stored tensor's gradient depends on the tensor as well: it is not the activation's as it stands.
  constexpr bool reads_value() const { return norm >= 0 || function; }
};

enum class LaunchKind {
  conv_forward,
  conv_weight_gradient,
  conv_input_gradient,
  max_pool_forward,
  max_pool_backward,
  avg_pool_forward,
  avg_pool_backward,
  softmax_forward,
  softmax_backward,
  add,      ///< the sum of two values, written out; their sources lie one behind the other
  store,    ///< a value written out, where a norm or a second resampling needs it stored
  moments,  ///< of a tensor that no launch writes: its output is read
  store_backward,
  upsample_backward,
  gradient_store,  ///< gradients of several activations of one tensor, added into one
  loss
};

constexpr bool is_convolution(LaunchKind kind) {
  return kind == LaunchKind::conv_forward || kind == LaunchKind::conv_weight_gradient ||
         kind == LaunchKind::conv_input_gradient;
}

struct Launch {
  LaunchKind kind{};
  int node = -1;
  Value input;           ///< what it reads forward (backward launches read it again)
  int source = -1;       ///< which source of the input a backward launch differentiates
  int reads = -1;        ///< activation whose gradient it reads
  int result = -1;       ///< softmax_backward: what it wrote forward
  int output = -1;       ///< stored tensor written
  bool weights = false;  ///< conv_input_gradient: it sums the gradient of the weights of its source as well
  bool accumulate = false;
  int addend = -1;             ///< accumulate: stored tensor that it adds to, where that is not its output
  int mask = -1;               ///< stored tensor x: what it writes is multiplied by f'(x) (an activation layer's vjp)
  Nonlinearity mask_function;  ///< f
  int statistics = -1;         ///< norm whose moments it gathers from its output
  int sums = -1;               ///< activation whose norm sums it gathers: its output is that gradient, now complete
  int stage = 0;

  /// Of which resampling it is the adjoint; nearest where it is none.
  constexpr Resampling resampling() const {
    if (kind != LaunchKind::upsample_backward) return Resampling::nearest;
    const Source& resampled = input.sources[source];
    return resampled.linear ? Resampling::linear : resampled.is_padded() ? Resampling::padded : Resampling::nearest;
  }
};

/// The window by which a convolution runs as Winograd's tiles from so many channels to so many (stencil/winograd.hpp),
/// else 0.
constexpr int winograd_window(const Node& node, int inputs, int outputs) {
  if (node.channel_groups > 1 || node.window[0].transposed) return 0;
  return winograd_window(node.window[1], node.window[2], inputs, outputs);
}

/// vjp: gradients of parameters and input from a given gradient of the prediction, the cotangent.
enum class PlanKind { inference, training, training_with_input_gradient, vjp };

/// What a plan is beside its tables.
struct PlanNumbers {
  bool training = false;
  bool input_gradient_wanted = false;
  int input_gradient = -1;  ///< stored tensor of the input's gradient, where wanted
  int prediction = -1;      ///< stored tensor of the output
  int cotangent = -1;       ///< its gradient, where given
  int stages = 0;
  int first_backward = 0;  ///< launches before it are the forward pass; the loss, unless the cotangent is given
};

/// Table as in BasicGraph.
template <template <class, int> class Table, class GraphType>
struct BasicPlan : PlanNumbers {
  GraphType graph;
  Table<StoredTensor, graph_capacity> tensors;
  Table<Norm, graph_capacity> norms;
  Table<Activation, graph_capacity> activations;
  Table<Launch, 2 * graph_capacity> launches;

  constexpr const Node& node_of(const Launch& launch) const { return graph.nodes[launch.node]; }
  constexpr const Node& node_of(int launch) const { return node_of(launches[launch]); }

  /// Channels that a convolution's launch reads and writes: of its input and output, or of their gradients. What it
  /// reads counts once for each plane of the window.
  constexpr int channels_in(const Launch& launch) const {
    const Node& node = node_of(launch);
    const bool of_gradient = launch.kind == LaunchKind::conv_input_gradient;
    return (of_gradient ? node.channels : launch.input.channels()) * node.window[0].kernel;
  }
  constexpr int channels_out(const Launch& launch) const {
    return launch.kind == LaunchKind::conv_input_gradient ? launch.input.sources[launch.source].channels
                                                          : node_of(launch).channels;
  }

  /// The window of a launch that computes whole tiles by Winograd's algorithm (stencil/winograd.hpp), else 0.
  constexpr int winograd(const Launch& launch) const {
    if (!is_convolution(launch.kind)) return 0;
    return winograd_window(node_of(launch), channels_in(launch), channels_out(launch));
  }

  /// Whether it transforms down the columns alone (stencil/winograd.hpp).
  constexpr bool winograd_by_rows(const Launch& launch) const {
    const int in = channels_in(launch), out = channels_out(launch);
    return launch.kind != LaunchKind::conv_weight_gradient && halogen::winograd_by_rows(winograd(launch), in, out) &&
           (!launch.weights || winograd_rows_sum_weights(in, out));
  }
  /// Points of dimension d that it computes together, on the global grid of their multiples: 1 but for Winograd's.
  constexpr int grid(const Launch& launch, int d) const {
    const int window = winograd(launch);
    return window == 0 || d == 0 || (d == 2 && winograd_by_rows(launch)) ? 1 : winograd_tile(window);
  }

  /// Calls f(tensor) for each stored tensor that the launch reads; a tensor may come twice.
  template <class F>
  constexpr void for_each_read(const Launch& launch, F f) const {
    const bool reads_input =
        launch.kind != LaunchKind::conv_input_gradient && launch.kind != LaunchKind::upsample_backward &&
        launch.kind != LaunchKind::gradient_store && launch.kind != LaunchKind::store_backward &&
        launch.kind != LaunchKind::softmax_backward && launch.kind != LaunchKind::avg_pool_backward;
    if (reads_input)
      for (const Source& source : launch.input.sources) f(source.tensor);
    if (launch.weights) f(launch.input.sources[launch.source].tensor);
    if (launch.result >= 0) f(launch.result);
    if (launch.reads >= 0 && launch.kind != LaunchKind::loss) {
      const Activation& activation = activations[launch.reads];
      f(activation.gradient);
      if (activation.reads_value()) f(activation.tensor);
    }
    if (launch.sums >= 0) f(activations[launch.sums].tensor);
    if (launch.accumulate) f(launch.addend >= 0 ? launch.addend : launch.output);
    if (launch.mask >= 0) f(launch.mask);
  }

  /// Calls f(parameter, at_end) for each parameter tensor that the launch reads, `at_end` for those that only its sums
  /// do; a tensor may come twice.
  template <class F>
  constexpr void for_each_parameter(const Launch& launch, F f) const {
    const Node& node = node_of(launch);
    const bool forward = launch.kind == LaunchKind::conv_forward;
    if (forward || launch.kind == LaunchKind::conv_input_gradient) f(node.parameter, false);
    if (forward && node.bias) f(node.parameter + 1, false);
    if (launch.statistics >= 0)
      for (int i = 0; i < 2; ++i) f(norms[launch.statistics].parameter + i, true);
    if (launch.sums >= 0) f(norms[activations[launch.sums].norm].parameter, true);
  }

  /// Calls f(parameter) for each parameter tensor whose gradient the launch writes or adds to.
  template <class F>
  constexpr void for_each_parameter_gradient(const Launch& launch, F f) const {
    const Node& node = node_of(launch);
    if (launch.kind == LaunchKind::conv_weight_gradient || launch.weights)
      for (int i = 0; i < 1 + node.bias; ++i) f(node.parameter + i);
    if (launch.sums >= 0)
      for (int i = 0; i < 2; ++i) f(norms[activations[launch.sums].norm].parameter + i);
  }
};

/// The plan that is run: views of static tables (trace.hpp), or of a draft's.
using Plan = BasicPlan<TableView, Graph>;

/// A plan while a Planner makes it.
struct PlanDraft : BasicPlan<StaticVector, GraphDraft> {
  constexpr explicit PlanDraft(const GraphDraft& of) : BasicPlan{{}, of, {}, {}, {}, {}} {}

  constexpr operator Plan() const& {  // NOLINT: a draft is read as any plan, while it lives
    return {*this, graph, tensors, norms, activations, launches};
  }
  operator Plan() const&& = delete;
};

}  // namespace halogen
