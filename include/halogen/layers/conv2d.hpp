// Conv2d: y[n, k, o] = bias[k] + sum over c, i of w[k, c, i] * x[n, c, o * stride - padding + i * dilation]
//
//   over the channels c of k's group: Groups<G> (torch's groups) lets the g-th Out / G outputs read the g-th In / G
//   inputs; Groups<In> is a depthwise convolution
//   x: (N, In, H, W)  w: (Out, In / G, KH, KW)  bias: (Out)  ->  y: (N, Out, H', W'),
//   H' = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1, as torch.nn.Conv2d.
//
//   placements of x           placements of y     forward                      backward
//   Shard<0>                  Shard<0>            nothing                      weights' gradient in the bucket
//   Shard<2>, Shard<3>        the same, derived   halo exchange of x's source  halo exchange of y's gradient; the
//                                                                                      bucket
//   Replicate                 Replicate           nothing                      nothing
//   Shard<1>, Partial         does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo per dimension: at most padding before and dilation (kernel - 1) - padding after (stencil/window.hpp); 3 x 3 (5 x
// 5) windows that use Winograd's tiles (layers/convolution/winograd_windows.hpp) need up to 3 (1) points more if a cut
// lies between two tiles. With few channels this does not hold across columns. Accumulation: the owner computes each
// output as one sum that starts with the bias, in the order (c, i): bitwise the same on any mesh. Weight gradients:
// value type within a tile of rows, double across tiles. Starts as PyTorch: weight and bias uniform in +-1/sqrt(In / G
// KH KW).
#pragma once

#include "halogen/layers/convolution/launches.hpp"
#include "halogen/layers/read_padded.hpp"

namespace halogen {
namespace detail {

constexpr void convolution_forward(Planner& planner, const Node& node) {
  Launch launch = planner.launch<ConvolutionForward>(node);
  launch.read(planner.read(node, Pattern::window())).use(node.parameter);
  if (node.as<ConvolutionConstants>().bias) launch.use(node.parameter + 1);
  planner.emit_forward(node, launch);
}

/// Whether the launch of the input gradient also sums the weights' gradient (layers/convolution/winograd_windows.hpp).
/// Outputs and inputs then have one grid of tiles.
constexpr bool sums_weights_beside(const Node& node, const Value& input) {
  if (node.level != input.level || node.window[0].kernel % 2 == 0) return false;
  for (int i = 0; i < input.sources.size(); ++i) {
    const Convolution of(node, Pass::both_gradients, input, i);
    if (!winograd_sums_weights(of.inputs, of.outputs) || of.winograd() == 0) return false;
  }
  return true;
}

constexpr void convolution_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  const Value& input = planner.value_of(node.inputs[0]);
  const auto sums_weights = [&](Launch& launch) {
    launch.sum_gradient_of(node.parameter);
    if (node.as<ConvolutionConstants>().bias) launch.sum_gradient_of(node.parameter + 1);
  };
  if (planner.trains(node.parameter) && !planner.is_map(input) && sums_weights_beside(node, input) &&
      planner.all_need_gradients(input)) {
    Launch both = planner.launch<ConvolutionGradients>(node);
    both.read(planner.gradient(reads, Pattern::adjoint())).read(planner.own_source(Pattern::point()));
    both.use(node.parameter);
    sums_weights(both);
    return planner.emit_input_gradients(both);
  }
  const bool transposed = node.window[0].transposed;  // then the sums go over points of the input
  Launch weight = planner.launch<ConvolutionWeightGradient>(node);
  weight.read(planner.read_again(node, transposed ? Pattern::point() : Pattern::window()));
  weight.read(planner.gradient(reads, transposed ? Pattern::adjoint() : Pattern::point()));
  weight.level = transposed ? input.level : node.level;
  sums_weights(weight);
  planner.emit(weight);
  Launch gradient = planner.launch<ConvolutionInputGradient>(node);
  gradient.read(planner.gradient(reads, Pattern::adjoint())).use(node.parameter);
  planner.emit_input_gradients(gradient);
}

inline constexpr Operation conv2d_operation{"conv2d", convolution_forward, convolution_vjp, false, true};

/// The node of a convolution with windows of this number of dimensions. Its level is still that of x.
template <int Dimensions>
constexpr Node convolution_node(Traced x, const Operation& operation, int in, int out,
                                const WindowOptions<Dimensions>& options, const ConvolutionConstants& constants) {
  GraphDraft& graph = *x.graph;
  Node node;
  node.operation = &operation;
  node.layer = graph.next_layer();
  graph.slide(Dimensions, node.layer);
  if ((*x).channels != in) graph.refuse<why::channels_differ>(node.layer, in, (*x).channels);
  for (const int channels : {in, out})
    if (channels % options.groups != 0) graph.refuse<why::groups_do_not_divide>(node.layer, options.groups, channels);
  node.inputs[0] = x.node;
  node.channels = out;
  for (int d = 0; d < spatial_dimensions; ++d) node.window[d] = options.window[d];
  node.level = (*x).level;
  node.constants = &constants;
  return node;
}

/// Appends the node and its parameters to the graph. The weight is (first, second, kernel...).
template <int Dimensions>
constexpr Traced add_weighted(GraphDraft& graph, Node node, int first, int second) {
  ParameterShape weight{.shape = {first, second}, .rank = 2 + Dimensions, .fan_in = second};
  for (int d = 0; d < Dimensions; ++d) {
    weight.shape[2 + d] = node.window[spatial_dimensions - Dimensions + d].kernel;
    weight.fan_in *= weight.shape[2 + d];
  }
  node.parameter = graph.add_parameter("weight", weight);
  if (node.as<ConvolutionConstants>().bias)
    graph.add_parameter("bias", {.shape = {node.channels}, .rank = 1, .fan_in = weight.fan_in});
  return {&graph, graph.add(node)};
}

template <int In, int Out, int Dimensions>
constexpr Traced add_convolution(Traced x, const Operation& operation, const WindowOptions<Dimensions>& options,
                                 const ConvolutionConstants& constants) {
  Node node = convolution_node(x, operation, In, Out, options, constants);
  read_padded(x, node, options);
  return add_weighted<Dimensions>(*x.graph, node, Out, In / options.groups);
}

namespace types {
/// A convolution with windows of this number of dimensions.
template <class Self, const Operation& Op, int Dimensions, int In, int Out, class... Options>
struct ConvolutionLayer : Module<Self> {
  static_assert(In > 0 && Out > 0, "a convolution has channels");
  static constexpr auto options = window_options<Dimensions, Options...>();
  static_assert(options.keeps_extents, "Same needs a stride of 1");
  static_assert(options.has_own_extent(), "OutputPadding belongs to transposed convolutions");

  constexpr Traced forward(Traced x) const { return add_convolution<In, Out>(x, Op, options, constants); }

 private:
  static constexpr ConvolutionConstants constants{{}, options.groups, options.bias};
};
}  // namespace types

}  // namespace detail

/// Options in any order: Kernel<H, W = H> (1), Stride (1), Padding (0) and PaddingAfter (equal), or Same, Dilation (1),
/// Groups (1), Boundary<Height, Width> (Zero, Zero), Bias<bool> (true).
template <int In, int Out, class... Options>
struct Conv2d
    : detail::types::ConvolutionLayer<Conv2d<In, Out, Options...>, detail::conv2d_operation, 2, In, Out, Options...> {};

}  // namespace halogen
