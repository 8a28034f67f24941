// GlobalAvgPool: y[n, c] = mean of x[n, c] over the whole field, on any cut, as torch.nn.AdaptiveAvgPool2d(1) followed
// by flatten(1).
//
//   x: (N, C, H, W) or (N, C, D, H, W) -> y: a vector (N, C)
//
//   placements of x       placements of y                  forward                           backward
//   Shard<2> and beyond   Replicate: equal on those ranks  all_reduce of N C doubles         nothing
//   Shard<0>, Replicate   the same                         nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. Accumulation: in double, over the rows of a tile, over tiles, then over ranks.
#pragma once

#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct GlobalAvgPoolForward : VectorSumLaunch {
  static constexpr const char* label = "halogen::global_avg_pool";
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    at.sum_points(label, at.value(0));
    const double points = static_cast<double>(at.layout().level(at.launch().level).points());
    at.write_vectors(label, kernels::MeanRows<S>{at.rank_sums(), at.node().channels, points});
  }
};

struct GlobalAvgPoolBackward {
  static constexpr const char *label = "halogen::global_avg_pool_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    const auto& layout = at.layout();
    const int level = at.launch().level;
    const auto scale = static_cast<compute_type<S>>(1 / static_cast<double>(layout.level(level).points()));
    return kernels::BroadcastRows<S, kernels::GradientReader<S>>{at.gradient(0), layout.planes(level),
                                                                 at.first_channel(), scale};
  }
};

/// A launch of type L that reads all points and writes a vector.
template <class L>
constexpr void pool_to_vector(Planner& planner, const Node& node) {
  Launch launch = planner.launch<L>(node);
  launch.level = planner.value_of(node.inputs[0]).level;
  planner.emit_forward(node, launch.read(planner.read(node, Pattern::point())));
}

constexpr void global_avg_pool_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<GlobalAvgPoolBackward>(node);
  planner.emit_input_gradients(launch.read(planner.gradient(reads, Pattern::vector())));
}

inline constexpr Operation global_avg_pool_operation{"global_avg_pool", pool_to_vector<GlobalAvgPoolForward>,
                                                     global_avg_pool_vjp};

namespace types {
/// A layer from a map to a vector with the same channels.
template <class Self, const Operation& Op>
struct VectorPoolLayer : Module<Self> {
  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    const Traced y = add_layer(x, Op);
    Node& node = graph.nodes[y.node];
    graph.need_points(x, node.layer);
    node.level = graph.vectors();
    return y;
  }
};
}  // namespace types

}  // namespace detail

struct GlobalAvgPool : detail::types::VectorPoolLayer<GlobalAvgPool, detail::global_avg_pool_operation> {};

}  // namespace halogen
