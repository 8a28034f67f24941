// SinusoidalEmbedding1d, 2d, 3d<Base>: y[n, c, p] = x[n, c, p] + a sine or cosine of p's index in the whole field
// (Vaswani et al. 2017; in two dimensions as He et al. 2021, MAE). The C channels are divided into one part for each
// dimension: depth, height, width. In a part with E channels, channel k < E / 2 gets sin(i w_k) and channel E / 2 + k
// gets cos(i w_k), where i is the index along the dimension and w_k = Base^(-2 k / E).
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W), 2 x dimensions divides C -> y: the same; no parameters
//
//   placements of x                            placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate   the same          nothing   nothing
//   Shard<1>, Partial                          does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored; the gradient is y's. Errors: why::groups_do_not_divide.
#pragma once

#include "halogen/kernels/pointwise/sinusoidal_embedding.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct SinusoidalConstants : Constants {
  int dimensions = 1;
  double base = 10000;
};

struct SinusoidalForward {
  static constexpr const char* label = "halogen::sinusoidal_embedding";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    const auto& of = at.node().template as<SinusoidalConstants>();
    return kernels::SinusoidalRows<S>{at.value(0), at.whole_field(), at.node().channels, of.dimensions, of.base};
  }
};
constexpr void sinusoidal_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<SinusoidalForward>(node).read(planner.read(node, Pattern::point())));
}
constexpr void sinusoidal_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  planner.emit_input_gradients(planner.launch<StoreGradient>(node).read(planner.gradient(reads, Pattern::point())));
}
inline constexpr Operation sinusoidal_operation{"sinusoidal_embedding", sinusoidal_forward, sinusoidal_vjp};

namespace types {
template <class Self, int Dimensions, int Base>
struct SinusoidalLayer : Module<Self> {
  static_assert(Base > 1, "a sinusoidal embedding has a base above 1");
  static constexpr SinusoidalConstants constants{{}, Dimensions, Base};

  constexpr Traced forward(Traced x) const {
    const Traced y = add_layer(x, sinusoidal_operation, &constants);
    GraphDraft& graph = *x.graph;
    const Node& node = graph.nodes[y.node];
    graph.need_points(x, node.layer);
    graph.slide(Dimensions, node.layer);
    constexpr int waves = 2 * Dimensions;
    if (node.channels % waves != 0) graph.refuse<why::groups_do_not_divide>(node.layer, waves, node.channels);
    return y;
  }
};
}  // namespace types

}  // namespace detail

template <int Base = 10000>
struct SinusoidalEmbedding1d : detail::types::SinusoidalLayer<SinusoidalEmbedding1d<Base>, 1, Base> {};
template <int Base = 10000>
struct SinusoidalEmbedding2d : detail::types::SinusoidalLayer<SinusoidalEmbedding2d<Base>, 2, Base> {};
template <int Base = 10000>
struct SinusoidalEmbedding3d : detail::types::SinusoidalLayer<SinusoidalEmbedding3d<Base>, 3, Base> {};

}  // namespace halogen
