// add(a, b) and Residual<Inner>: y = a + b, and y = x + Inner(x), as torch's a + b.
//
//   (N, C, H, W), (N, C, H, W) -> (N, C, H, W)
//
//   placements of a and b                    placements of y   forward and backward
//   Shard<0>, Shard<2>, Shard<3>, Replicate  the same          nothing
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. The sum is stored once. If a term is the output of a convolution without norm, activation or other
// reader, and the other term is stored without norm and activation, the convolution writes the sum. Otherwise one
// launch reads both terms, applies their norms, activations and upsamplings, and writes the sum. The readers of the sum
// apply an activation that follows. The launch that writes the sum gathers the moments of a norm that follows. So
// windows that follow need an exchange of one tensor, and not of each term.
//
// vjp: the terms share one gradient without a copy. The last launch that writes it applies the derivative of an
// activation that follows the sum, and gathers the sums of a term's norm. If a term has other readers, their
// contributions are added to this gradient.
//
// Accumulation: b is added to a.
#pragma once

#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct AddForward {
  static constexpr const char *label = "halogen::add", *name = "sum";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::SumRows<S>{at.value(0), at.value(1)};
  }
};

constexpr void add_forward(Planner& planner, const Node& node) {
  planner.emit_sum<AddForward>(node, planner.value_of(node.inputs[0]), planner.value_of(node.inputs[1]));
}

constexpr void add_vjp(Planner& planner, const Node& node) { planner.emit_sum_gradients(node); }

inline constexpr Operation add_operation{"add", add_forward, add_vjp};

}  // namespace detail

/// Both must have the same channels and resolution: why::channels_differ, why::levels_differ.
constexpr Traced add(Traced a, Traced b) {
  GraphDraft& graph = *a.graph;
  Node node;
  node.operation = &detail::add_operation;
  node.inputs[0] = a.node;
  node.inputs[1] = b.node;
  node.channels = (*a).channels;
  node.level = (*a).level;
  node.layer = graph.layers - 1;
  if ((*a).channels != (*b).channels) graph.refuse<why::channels_differ>(node.layer, (*a).channels, (*b).channels);
  if ((*a).level != (*b).level) graph.refuse<why::levels_differ>(node.layer, (*a).level, (*b).level);
  return {&graph, graph.add(node)};
}

constexpr Traced operator+(Traced a, Traced b) { return add(a, b); }

/// x + Inner(x). Inner keeps channels and resolution. UpsampleToSkip inside returns to x's extents and cuts. If a
/// shortcut must change them, write a struct with both branches and add(shortcut(x), body(x)).
template <class Inner>
struct Residual : Module<Residual<Inner>> {
  constexpr Traced forward(Traced x) const { return add(x, detail::body_with_skip<Residual, Inner>(x)); }
};

}  // namespace halogen
