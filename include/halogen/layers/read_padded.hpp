// How a windowed layer reads a field whose boundaries have images or a constant.
#pragma once

#include <algorithm>

#include "halogen/layers/constant_pad.hpp"
#include "halogen/layers/pad.hpp"

namespace halogen::detail {

/// x with the constants beyond its edges, written out as by a ConstantPad. The node's windows then have no padding
/// there. Readers of the same pad share it. pads_zeros: the layer's own padding is 0, so a pad of zeros need not be
/// written out.
template <int Dimensions>
constexpr Traced with_constant_edges(Traced x, Node& node, const WindowOptions<Dimensions>& options, bool pads_zeros) {
  GraphDraft& graph = *x.graph;
  for (int d = 0; d < spatial_dimensions; ++d) {
    const ConstantPadConstants& edges = options.constant_edges[d];
    const bool differs = options.is_constant[d] && (edges.value != 0 || !pads_zeros);
    if (!differs || node.window[d].padding_of_both() == 0) continue;
    Node pad;
    for (int e = 0; e < spatial_dimensions; ++e) {
      Window& window = node.window[e];
      if (!options.is_constant[e] || options.constant_edges[e].value != edges.value) continue;
      pad.window[e] = {.padding = window.padding, .more_padding = window.more_padding};
      window.padding = window.more_padding = 0;
    }
    pad.operation = &constant_pad_operation;
    pad.constants = &edges;
    pad.layer = node.layer;
    pad.inputs[0] = x.node;
    pad.channels = (*x).channels;
    pad.level = graph.level_through((*x).level, pad.window);
    const auto same = std::ranges::find_if(graph.nodes, [&](const Node& other) {
      return other.operation == pad.operation && other.inputs[0] == pad.inputs[0] &&
             std::ranges::equal(other.window, pad.window) && other.as<ConstantPadConstants>().value == edges.value;
    });
    x = {&graph, same != graph.nodes.end() ? same->index : graph.add(pad)};
  }
  return x;
}

/// Periodic windows that keep the extents read points of the other end directly. Other periodic windows read a circular
/// pad, because their input, and the gradient that is gathered through them, would have another period than their
/// output.
constexpr void pad_periodic(Window (&windows)[spatial_dimensions]) {
  for (Window& window : windows) {
    const bool keeps = window.stride == 1 && window.padding_of_both() == window.span() - 1 && !window.ceil;
    if (!window.periodic || keeps) continue;
    window.periodic = false;
    if (window.padding_of_both() > 0) window.pads = Edge::periodic;
  }
}

/// The node reads x through its windows. If a boundary has images or a constant, it reads a padded x and has no padding
/// itself. Its level is the same as with zero padding, so a Residual can add x.
template <int Dimensions>
constexpr void read_padded(Traced x, Node& node, const WindowOptions<Dimensions>& options, bool pads_zeros = true) {
  GraphDraft& graph = *x.graph;
  pad_periodic(node.window);
  Window zeros[spatial_dimensions];
  std::ranges::copy(node.window, zeros);
  const auto pads_itself = [](Window(&windows)[spatial_dimensions]) {
    for (Window& window : windows)
      if (window.is_pad()) window.padding = window.more_padding = 0, window.pads = Edge::zero;
  };
  const Traced whole = with_constant_edges(x, node, options, pads_zeros);
  const Traced padded = pad(goes_on(whole, node.window), node.window, node.layer);
  node.inputs[0] = padded.node;
  int level = (*padded).level;
  if (whole.node != x.node) level = graph.level_through((*x).level, images_in(node.window).window);
  pads_itself(node.window);
  pads_itself(zeros);
  node.level = graph.level_through(level, whole.node != x.node ? zeros : node.window);
}

}  // namespace halogen::detail
