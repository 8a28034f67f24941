// Linear<In, Out>: y[n, k, p] = bias[k] + sum over c of w[k, c] * x[n, c, p], as torch.nn.Linear. It works on the
// channels of a vector (N, In), or of each point of a map. (torch.nn.Linear takes a map with channels last.)
//
//   x: (N, In) or (N, In, H, W) or (N, In, D, H, W) -> y: the same with Out; w: (Out, In), bias: (Out)
//
//   placements of x                                 placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate        the same          nothing   weights' gradient in the bucket
//   Shard<1>, Partial                               does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. Ranks that share a vector compute the same result, and only one of them contributes to the weights'
// gradient. Accumulation and start as Conv2d's with a window of one point.
#pragma once

#include "halogen/layers/conv2d.hpp"

namespace halogen {
namespace detail {
inline constexpr Operation linear_operation{"linear", convolution_forward, convolution_vjp, false, true};
}

/// Options: Bias<bool> (true).
template <int In, int Out, class... Options>
struct Linear : Module<Linear<In, Out, Options...>> {
  static_assert(In > 0 && Out > 0, "a linear layer has channels");
  static constexpr auto options = detail::window_options<2, Options...>();

  constexpr Traced forward(Traced x) const {
    const Traced y = add_layer(x, detail::linear_operation, &constants);
    GraphDraft& graph = *x.graph;
    Node& node = graph.nodes[y.node];
    if (node.channels != In) graph.refuse<why::channels_differ>(node.layer, In, node.channels);
    node.channels = Out;
    node.parameter = graph.add_parameter("weight", {.shape = {Out, In}, .rank = 2, .fan_in = In});
    if (options.bias) graph.add_parameter("bias", {.shape = {Out}, .rank = 1, .fan_in = In});
    return y;
  }

 private:
  static constexpr detail::ConvolutionConstants constants{{}, 1, options.bias};
};

}  // namespace halogen
