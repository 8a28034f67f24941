// ReflectionPad2d<P>, ReplicationPad2d<P>, CircularPad2d<P> and their 3d: the field with P more points on either side,
// as torch.nn's. Windows with Boundary<Reflect, ReplicateEdge> use the same code, and windows with Periodic if they do
// not keep the extents.
//   reflect:    y[i] = x[-(i - P)] before the field, x[2 (H - 1) - (i - P)] after it; P < H
//   replicate:  y[i] = x[0] before, x[H - 1] after
//   circular:   y[i] = x[(i - P) mod H]; P <= H
//
//   x: (N, C, H, W) -> y: (N, C, H + 2 PH, W + 2 PW), or with other numbers before and after. Each piece keeps its
//   points; the first and the last piece also get the padded points. (N, C, D, H, W) likewise
//
//   placements of x          placements of y   forward and backward
//   Shard<2> and beyond      the same          nothing, but where a piece has at most P points, and what a reader's own
//                                              window needs; circular: P points of the first and the last piece
//   Shard<0>, Replicate      the same          nothing
//   Shard<1>, Partial        does not compile: why::channels_are_cut, why::input_is_partial
//
// Nothing is copied: readers look up images and apply norm and activation to them. If parts of a concatenation are
// upsampled or padded already, each such part is written out. vjp: the launch that computes the gradient of the padded
// field stores it. Then the owner of each point adds the gradients of its images. Errors: CollectiveError if P >= H for
// a reflection, or P > H for a circular pad.
#pragma once

#include <algorithm>

#include "halogen/layers/module.hpp"
#include "halogen/layers/window_options.hpp"

namespace halogen {
namespace detail {

constexpr void pad_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  for (int i = 0; i < value.sources.size(); ++i) {
    Source& source = value.sources[i];
    if (source.resampled) {
      Value alone;
      alone.level = value.level;
      alone.sources.push(source);
      source = planner.stored(node, alone).sources[0];
    }
    source.resampled = true;
    for (int d = 0; d < spatial_dimensions; ++d) {
      source.pads[d] = node.window[d].pads;
      source.more[d] = node.window[d].more_padding;
    }
  }
  value.level = node.level;
  planner.set_value(node, value);
}

inline constexpr Operation pad_operation{"pad", pad_forward, no_vjp};

/// A node with the paddings of those windows that reflect, replicate or are circular.
constexpr Node images_in(const Window (&windows)[spatial_dimensions]) {
  Node node;
  for (int d = 0; d < spatial_dimensions; ++d)
    if (windows[d].is_pad() && windows[d].padding_of_both() > 0)
      node.window[d] = {
          .padding = windows[d].padding, .more_padding = windows[d].more_padding, .pads = windows[d].pads};
  return node;
}

/// x padded by those of the windows that pad; x itself if none does. Readers of the same pad share it.
constexpr Traced pad(Traced x, const Window (&windows)[spatial_dimensions], int layer) {
  GraphDraft& graph = *x.graph;
  Node node = images_in(windows);
  node.level = graph.level_through((*x).level, node.window);
  if (node.level == (*x).level) return x;
  node.operation = &pad_operation;
  node.layer = layer;
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  for (const Node& other : graph.nodes)
    if (other.operation == &pad_operation && other.inputs[0] == x.node && std::ranges::equal(other.window, node.window))
      return {&graph, other.index};
  return {&graph, graph.add(node)};
}

/// A value is written out if one of its sources is padded in a dimension in which the node's windows are periodic.
constexpr void store_padded_forward(Planner& planner, const Node& node) {
  const Value value = planner.value_of(node.inputs[0]);
  bool padded = false;
  for (const Source& source : value.sources)
    for (int d = 0; d < spatial_dimensions; ++d) padded |= node.window[d].periodic && source.pads[d] != Edge::zero;
  planner.set_value(node, padded ? planner.stored(node, value) : value);
}

inline constexpr Operation store_padded_operation{"store", store_padded_forward, no_vjp};

/// x for a reader with these windows. A periodic reader of a padded field continues at the other end of the padding. So
/// it needs the padded field written out.
constexpr Traced goes_on(Traced x, const Window (&windows)[spatial_dimensions]) {
  GraphDraft& graph = *x.graph;
  Node node;
  bool crosses = false;
  for (int d = 0; d < spatial_dimensions; ++d) {
    node.window[d].periodic = windows[d].periodic && graph.levels[(*x).level].window[d].is_pad();
    crosses |= node.window[d].periodic;
  }
  if (!crosses) return x;
  node.operation = &store_padded_operation;
  node.layer = graph.layers - 1;
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  node.level = (*x).level;
  return {&graph, graph.add(node)};
}

/// The points that a pad adds in dimension d, counted from depth. Points: one number, one for each dimension, or two
/// for each, before and after the field.
template <int Dimensions, int... Points>
constexpr Window pad_window(int d) {
  constexpr int given = sizeof...(Points), all[] = {Points...};
  static_assert((given == 1 || given == Dimensions || given == 2 * Dimensions) && ((Points >= 0) && ...),
                "a pad has one number of points, one for each dimension, or two for each, 0 or more");
  const int at = d - (spatial_dimensions - Dimensions);
  if (at < 0) return {};
  if (given < 2 * Dimensions || given == 1) return {.padding = all[given == 1 ? 0 : at]};
  const int before = all[(2 * at) % given];
  return {.padding = before, .more_padding = all[(2 * at + 1) % given] - before};
}

namespace types {
template <class Self, int Dimensions, Edge Kind, int... Points>
struct PadLayer : Module<Self> {
  constexpr Traced forward(Traced x) const {
    Window windows[spatial_dimensions];
    for (int d = 0; d < spatial_dimensions; ++d) {
      windows[d] = pad_window<Dimensions, Points...>(d);
      if (windows[d].padding_of_both() > 0) windows[d].pads = Kind;
    }
    const int layer = x.graph->next_layer();
    x.graph->slide(Dimensions, layer);
    return pad(x, windows, layer);
  }
};
}  // namespace types
using types::PadLayer;

}  // namespace detail

/// One number, one for each of height and width (depth, height, width), or two for each, before and after the field.
template <int... Points>
struct ReflectionPad2d : detail::PadLayer<ReflectionPad2d<Points...>, 2, Edge::reflect, Points...> {};
template <int... Points>
struct ReplicationPad2d : detail::PadLayer<ReplicationPad2d<Points...>, 2, Edge::replicate, Points...> {};
template <int... Points>
struct ReflectionPad3d : detail::PadLayer<ReflectionPad3d<Points...>, 3, Edge::reflect, Points...> {};
template <int... Points>
struct ReplicationPad3d : detail::PadLayer<ReplicationPad3d<Points...>, 3, Edge::replicate, Points...> {};
template <int... Points>
struct CircularPad2d : detail::PadLayer<CircularPad2d<Points...>, 2, Edge::periodic, Points...> {};
template <int... Points>
struct CircularPad3d : detail::PadLayer<CircularPad3d<Points...>, 3, Edge::periodic, Points...> {};

}  // namespace halogen
