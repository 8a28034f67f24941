// UpsampleToSkip<Nearest>: y[o] = x[floor(o * n / m)] from n to the skip's m points, as
// torch.nn.functional.interpolate(size=skip's, mode="nearest").
//
//   x: (N, C, h, w) -> y: (N, C, H, W), or with depth; extents and cuts of the enclosing SkipConcat's input
//
//   placements of x       placements of y   forward and backward
//   Shard<2> and beyond   the skip's        a halo where m is no multiple of n or cuts are odd, else nothing
//   Shard<0>, Replicate   the same          nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Nothing is stored: readers look coarse rows up. vjp: the gradient at the fine level is stored by its writer, then
// each coarse point adds the fine points that read it, by its owner, in row order.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

/// Interpolation mode: the value of the one point at floor(o * n / m).
struct Nearest {};

namespace detail {

constexpr void upsample_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  bool resampled = false;
  for (const Source& source : value.sources) resampled |= source.resampled;
  if (resampled) value = planner.stored(node, value);
  if (value.level != node.level)
    for (int i = 0; i < value.sources.size(); ++i) value.sources[i].resampled = true;
  value.level = node.level;
  planner.set_value(node, value);
}

inline constexpr Operation upsample_operation{"upsample_nearest", upsample_forward, no_vjp};

}  // namespace detail

template <class Mode>
struct UpsampleToSkip : Module<UpsampleToSkip<Mode>> {
  static_assert(std::is_same_v<Mode, Nearest>, "UpsampleToSkip knows Nearest");

  constexpr Traced forward(Traced x) const {
    Graph& graph = *x.graph;
    Node node;
    node.operation = &detail::upsample_operation;
    node.layer = graph.next_layer();
    node.inputs[0] = x.node;
    node.channels = (*x).channels;
    node.level = (*x).level;
    if (graph.skips.empty())
      graph.refuse(Misfit::Kind::upsample_without_skip, node.layer);
    else
      node.level = graph.nodes[graph.skips.back()].level;
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
