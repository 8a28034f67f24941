// How a launch of a convolution is computed: which way its window runs, by which kernel, over which channels.
#pragma once

#include "halogen/plan/plan.hpp"
#include "halogen/kernels/tap_rows.hpp"

namespace halogen {

/// Whether the launch gathers through the transposed window: a convolution's input gradient, a transposed one's
/// forward.
constexpr bool gathers_transposed(const Node& node, LaunchKind kind) {
  return (kind == LaunchKind::conv_input_gradient) != node.window[0].transposed;
}

/// Whether the kernels over lists of taps run it: groups, and transposed windows unless they are the flipped window of
/// a stride of 1. All others are dense windows with sizes that the compiler knows, or have depth.
constexpr bool by_taps(const Node& node, LaunchKind kind) {
  if (!is_convolution(kind)) return false;
  const bool gathers = kind == LaunchKind::conv_input_gradient;
  if (node.channel_groups > 1) return true;
  if (!gathers || node.window[0].transposed) return node.window[0].transposed && !gathers;
  const bool plane = node.window[0].footprint() == 1 && node.window[0].stride == 1;
  return plane && (node.window[1].stride > 1 || node.window[2].stride > 1);
}

/// Whether it runs the flipped window instead, with zeros stuffed between the points of a stride.
constexpr bool flips(const Node& node, LaunchKind kind) {
  return kind == LaunchKind::conv_input_gradient && !node.window[0].transposed && !by_taps(node, kind);
}

/// Weights are stored as (first, second of a group, KH, KW): a convolution's outputs and inputs, a transposed one's
/// inputs and outputs. The groups of a launch, outputs and inputs as it computes them.
constexpr kernels::ChannelGroups channel_groups(const Graph& graph, const Node& node, LaunchKind kind) {
  const ParameterShape& weight = graph.parameters[node.parameter];
  const int groups = node.channel_groups, first = weight.shape[0] / groups, second = weight.shape[1];
  const bool swapped = kind != LaunchKind::conv_weight_gradient && gathers_transposed(node, kind);
  return {groups, swapped ? second : first, swapped ? first : second};
}

/// The window that a launch runs: the layer's own, or flipped.
constexpr kernels::WindowShape window_shape(const Node& node, LaunchKind kind) {
  kernels::WindowShape shape;
  for (int d = 0; d < 2; ++d) {
    const Window& window = node.window[1 + d];
    shape.kernel[d] = window.kernel;
    shape.dilation[d] = window.dilation;
    shape.padding[d] = window.padding;
    shape.stride[d] = window.stride;
    if (flips(node, kind)) {
      shape.padding[d] = window.footprint() - 1 - window.padding;
      shape.stride[d] = 1;
    }
  }
  return shape;
}

/// The same in depth, where a launch computes the given planes of each sample.
inline kernels::DepthWindow depth_window(const Node& node, LaunchKind kind, const Interval& planes) {
  const Window& window = node.window[0];
  kernels::DepthWindow depth{
      static_cast<int>(planes.size()), planes.begin, window.kernel, window.stride, window.dilation, window.padding};
  if (kind == LaunchKind::conv_input_gradient && !node.window[0].transposed) {  // by lists of taps as well
    depth.padding = window.footprint() - 1 - window.padding;
    depth.stride = 1;
  }
  return depth;
}

}  // namespace halogen
