// ReLU: y = max(x, 0), as torch.nn.ReLU; its derivative at 0 is 0.
//
//   (N, C, H, W) or (N, C, D, H, W) -> the same; Shard<0>, Shard<2> and beyond, and Replicate stay as they are. No
//   communication, no storage: readers clip as they read. A NaN stays one. Shard<1>, Partial: why::channels_are_cut,
//   why::input_is_partial.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {
namespace detail {

constexpr void relu_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  bool linear = false;  // what is read between two points is clipped behind the interpolation, not before
  for (const Source& source : value.sources) linear |= source.linear;
  if (linear) value = planner.stored(node, value);
  for (int i = 0; i < value.sources.size(); ++i) value.sources[i].relu = true;
  planner.set_value(node, value);
}

inline constexpr Operation relu_operation{"relu", relu_forward, no_vjp};

}  // namespace detail

struct ReLU : Module<ReLU> {
  constexpr Traced forward(Traced x) const {
    Graph& graph = *x.graph;
    Node node = *x;
    node.operation = &detail::relu_operation;
    node.layer = graph.next_layer();
    node.inputs[0] = x.node;
    node.inputs[1] = -1;
    node.parameter = -1;
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
