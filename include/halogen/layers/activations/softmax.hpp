// Softmax: y[n, c, p] = exp(x[n, c, p]) / sum over k of exp(x[n, k, p]), over the channels of each point, as
// torch.nn.Softmax(dim=1) (Softmax2d).
//
//   (N, C, H, W) -> the same
//
//   placements of x                          placements of y   forward and backward
//   Shard<0>, Shard<2>, Shard<3>, Replicate  the same          nothing
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored: its vjp y (g - sum of g y) needs nothing else. The largest channel is subtracted first.
// Accumulation: over the channels in their order.
#pragma once

#include "halogen/kernels/pointwise/softmax.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct SoftmaxForward {
  static constexpr const char* label = "halogen::softmax";
  template <class S, Form>
  static auto point(const LaunchAt<S>& at) {
    return kernels::SoftmaxPoint<S>{at.value(0), at.node().channels};
  }
};

struct SoftmaxBackward {
  static constexpr const char *label = "halogen::softmax_backward", *suffix = " backward";
  template <class S, Form>
  static auto point(const LaunchAt<S>& at) {
    return kernels::SoftmaxBackwardPoint<S>{at.gradient(0), at.tensor(1), at.node().channels, at.first_channel()};
  }
};

constexpr void softmax_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<SoftmaxForward>(node).read(planner.read(node, Pattern::point())));
}

constexpr void softmax_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<SoftmaxBackward>(node);
  planner.emit_input_gradients(launch.read(planner.gradient(reads, Pattern::point())).read(planner.result(node)));
}

inline constexpr Operation softmax_operation{"softmax", softmax_forward, softmax_vjp};

}  // namespace detail

struct Softmax : Module<Softmax> {
  constexpr Traced forward(Traced x) const { return add_layer(x, detail::softmax_operation); }
};

}  // namespace halogen
