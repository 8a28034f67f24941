// How a launch of a convolution is computed: which way its window runs, by which kernel, over which channels.
#pragma once

#include "halogen/expr/plan.hpp"
#include "halogen/kernels/tap_rows.hpp"

namespace halogen {

/// Whether the launch gathers through the transposed window: a convolution's input gradient, a transposed one's
/// forward.
constexpr bool gathers_transposed(const Node& node, LaunchKind kind) {
  return (kind == LaunchKind::conv_input_gradient) != node.window[0].transposed;
}

/// Whether the kernels over lists of taps run it: groups, and transposed windows unless they are the flipped window of
/// a stride of 1. All others are dense windows with sizes that the compiler knows.
constexpr bool by_taps(const Node& node, LaunchKind kind) {
  const bool gathers = kind == LaunchKind::conv_input_gradient;
  if (!gathers && kind != LaunchKind::conv_forward && kind != LaunchKind::conv_weight_gradient) return false;
  if (node.channel_groups > 1) return true;
  if (!gathers || node.window[0].transposed) return node.window[0].transposed && !gathers;
  bool strided = false;
  for (const Window& window : node.window) strided |= window.stride > 1;
  return strided;
}

/// Weights are stored as (first, second of a group, KH, KW): a convolution's outputs and inputs, a transposed one's
/// inputs and outputs. The groups of a launch, outputs and inputs as it computes them.
constexpr kernels::ChannelGroups channel_groups(const Graph& graph, const Node& node, LaunchKind kind) {
  const ParameterShape& weight = graph.parameters[node.parameter];
  const int groups = node.channel_groups, first = weight.shape[0] / groups, second = weight.shape[1];
  const bool swapped = kind != LaunchKind::conv_weight_gradient && gathers_transposed(node, kind);
  return {groups, swapped ? second : first, swapped ? first : second};
}

/// The window that a launch runs: the layer's own, or flipped for the input gradient of a dense one.
constexpr kernels::WindowShape window_shape(const Node& node, LaunchKind kind) {
  const bool flipped = kind == LaunchKind::conv_input_gradient && !node.window[0].transposed && !by_taps(node, kind);
  kernels::WindowShape shape;
  for (int d = 0; d < 2; ++d) {
    const Window& window = node.window[d];
    shape.kernel[d] = window.kernel;
    shape.dilation[d] = window.dilation;
    shape.padding[d] = flipped ? window.footprint() - 1 - window.padding : window.padding;
    shape.stride[d] = window.stride;
  }
  return shape;
}

}  // namespace halogen
