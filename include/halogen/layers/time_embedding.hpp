// TimeEmbedding<Channels>: y[n, c] = cos(w[c] t[n]), y[n, Channels / 2 + c] = sin(w[c] t[n]) with
// w[c] = Period^(-c / (Channels / 2)), c in [0, Channels / 2): the sinusoidal embedding of Vaswani et al. 2017 in the
// order of guided-diffusion's and DiT's timestep_embedding.
//
//   t: (N, 1), or one channel of a field; numbers, or an input of Indices -> y: the same with Channels
//
//   placements of t                          placements of y   forward and backward
//   Shard<0>, Shard<2> and beyond, Replicate the same          nothing
//
// No parameters, no halo. It has a gradient with respect to t, unless t is an index. The frequencies are computed in
// double, the angle in the network's type. So in float, for t beyond 1e5, the first channels have no accuracy.
#pragma once

#include <cmath>

#include "halogen/kernels/pointwise/embedding.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct TimeEmbeddingConstants : Constants {
  bool integer = false;
  int period = 1;
};

struct TimeEmbeddingForward {
  static constexpr const char* label = "halogen::time_embedding";
  template <class S>
  static kernels::TimeEmbeddingRows<S> of(const LaunchAt<S>& at, int operand) {
    const auto& constants = at.node().template as<TimeEmbeddingConstants>();
    return {{at.value(operand), constants.integer ? at.indices(operand) : IndexView{}, constants.integer},
            at.node().channels / 2,
            std::log(static_cast<double>(constants.period))};
  }
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return of(at, 0);
  }
};

struct TimeEmbeddingBackward {
  static constexpr const char *label = "halogen::time_embedding_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::TimeEmbeddingBackwardRows<S, kernels::GradientReader<S>>{TimeEmbeddingForward::of(at, 1),
                                                                             at.gradient(0)};
  }
};

constexpr void time_embedding_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<TimeEmbeddingForward>(node).read(planner.read(node, Pattern::point())));
}

constexpr void time_embedding_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<TimeEmbeddingBackward>(node);
  launch.read(planner.gradient(reads, Pattern::point())).read(planner.read_again(node, Pattern::point()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation time_embedding_operation{"time_embedding", time_embedding_forward, time_embedding_vjp};

}  // namespace detail

template <int Channels, int Period = 10000>
struct TimeEmbedding : Module<TimeEmbedding<Channels, Period>> {
  static_assert(Channels > 0 && Channels % 2 == 0 && Period > 1,
                "a TimeEmbedding has an even number of channels and a period above 1");

  constexpr Traced forward(Traced time) const { return embedded(time, &constants<false>); }
  constexpr Traced forward(TracedIndices time) const { return embedded({time.graph, time.node}, &constants<true>); }

 private:
  template <bool Integer>
  static constexpr detail::TimeEmbeddingConstants constants{{}, Integer, Period};

  static constexpr Traced embedded(Traced time, const Constants* constants) {
    const Traced y = add_layer(time, detail::time_embedding_operation, constants);
    Node& node = time.graph->nodes[y.node];
    if (node.channels != 1) time.graph->refuse<why::channels_differ>(node.layer, 1, node.channels);
    node.channels = Channels;
    return y;
  }
};

}  // namespace halogen
