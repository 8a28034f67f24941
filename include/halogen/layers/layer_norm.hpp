// LayerNorm<C>: y[n, c, p] = gamma[c] (x[n, c, p] - mean) / sqrt(variance + epsilon) + beta[c], mean and (biased)
// variance over the channels of each point, as torch.nn.LayerNorm(C) of (N, H, W, C): ConvNeXt's and a transformer's
// norm. RMSNorm<C>: y = gamma[c] x / sqrt(mean of x^2 over the channels + epsilon), as torch.nn.RMSNorm(C).
// LayerNormOfHeads<Heads, C>, RMSNormOfHeads<Heads, C>: the same over the C channels of each head, with one gamma and
// beta for all heads, as the norms of queries and keys.
//
//   x: (N, C, H, W) or (N, C, D, H, W) -> y: the same  gamma, beta: (C); of heads: x of Heads C channels
//
//   placements of x                          placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond            the same          nothing   gamma's and beta's gradients in the bucket
//   Replicate                                the same          nothing   nothing
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored. vjp: from x, which is normalised again, and the gradient of y. On the host the same pass
// takes the parameters' gradients, where x is one tensor. Accumulation: kernels/pointwise/layer_norm.hpp. Starts as
// PyTorch: gamma 1, beta 0.
#pragma once

#include <limits>
#include <ratio>

#include "halogen/kernels/pointwise/layer_norm.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct ChannelNormConstants : Constants {
  double epsilon = 0;  ///< 0: the epsilon of the value type
  int heads = 1;
};

/// Centred: with the mean subtracted, and with beta.
template <bool Centred>
struct ChannelNormOf {
  template <class S>
  static kernels::ChannelNorm<compute_type<S>, Centred> norm_of(const LaunchAt<S>& at) {
    using T = compute_type<S>;
    const auto& of = at.node().template as<ChannelNormConstants>();
    return {at.node().channels / of.heads,
            of.epsilon > 0 ? static_cast<T>(of.epsilon) : std::numeric_limits<T>::epsilon()};
  }
  template <class S>
  static kernels::ChannelNormBackwardPoint<S, Centred> backward_of(const LaunchAt<S>& at) {
    return {at.gradient(0), at.value(1), norm_of(at), at.parameter(0), at.node().channels};
  }

  struct Forward {
    static constexpr const char* label = Centred ? "halogen::layer_norm" : "halogen::rms_norm";
    template <class S, Form>
    static auto point(const LaunchAt<S>& at) {
      return kernels::ChannelNormPoint<S, Centred>{at.value(0), norm_of(at), at.parameter(0),
                                                   Centred ? at.parameter(1) : nullptr, at.node().channels};
    }
  };
  struct Backward {
    static constexpr const char *label = Centred ? "halogen::layer_norm_backward" : "halogen::rms_norm_backward",
                                *suffix = " backward";
    template <class S, Form>
    static auto point(const LaunchAt<S>& at) {
      auto point = backward_of(at);
      point.first = at.first_channel();
      return point;
    }
  };
  /// Host: both in one pass over x and the gradient.
  struct Gradients {
    static constexpr const char *label = Centred ? "halogen::layer_norm_gradients" : "halogen::rms_norm_gradients",
                                *suffix = " gradients";
    static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
      const int tiles = static_cast<int>(tiling.count());
      return {.partials = sizeof(double) * static_cast<std::size_t>(tiles * (1 + Centred) * at.node().channels),
              .blocks = tiles};
    }
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      kernels::ChannelNormGradientsPoint<S, Centred> point{backward_of(at)};
      point.first = at.first_channel();
      point.partial = at.partials();
      point.blocks = at.blocks();
      at.over_points(label, point);
      at.add_blocks(point.partial, point.partial_size(), point.blocks, point.partial_size(), at.parameter_gradient(1));
    }
  };
  struct ParameterGradients : ChannelSumLaunch<1 + Centred> {
    static constexpr const char *label = Centred ? "halogen::layer_norm_parameters" : "halogen::rms_norm_parameters",
                                *suffix = " parameter gradients";
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      kernels::ChannelNormSums<execution_space, S, Centred> sums;
      sums.point = backward_of(at);
      sums.bias = Centred;
      at.over_blocks(label, sums, at.parameter_gradient(1), sums.partial_size());
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch = planner.launch<Forward>(node);
    launch.read(planner.read(node, Pattern::point())).use(node.parameter);
    if (Centred) launch.use(node.parameter + 1);
    planner.emit_forward(node, launch);
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    const auto completed = [&](Launch launch) {
      launch.read(planner.gradient(reads, Pattern::point())).read(planner.read_again(node, Pattern::point()));
      return launch.use(node.parameter);
    };
    const auto with_sums = [&](Launch launch) {
      for (int i = 0; i < 1 + Centred; ++i) launch.sum_gradient_of(node.parameter + i);
      return launch;
    };
    const Value& input = planner.value_of(node.inputs[0]);
    if (!TileSizes::on_device && planner.trains(node.parameter) && input.sources.size() == 1 &&
        planner.all_need_gradients(input))
      return planner.emit_input_gradients(with_sums(completed(planner.launch<Gradients>(node))));
    Launch sums = with_sums(completed(planner.launch<ParameterGradients>(node)));
    sums.level = node.level;
    planner.emit(sums);
    planner.emit_input_gradients(completed(planner.launch<Backward>(node)));
  }
  static constexpr Operation operation{Centred ? "layer_norm" : "rms_norm", forward, vjp};
};

namespace types {
template <class Self, int Channels, class Epsilon, bool Centred, int Heads = 1>
struct ChannelNormLayer : Module<Self> {
  static_assert(Channels > 0 && Heads > 0, "a norm has channels, and a norm of heads has heads");
  static constexpr ChannelNormConstants constants{{}, static_cast<double>(Epsilon::num) / Epsilon::den, Heads};

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    const Traced y = add_layer(x, ChannelNormOf<Centred>::operation, &constants);
    Node& node = graph.nodes[y.node];
    if (node.channels != Heads * Channels)
      graph.refuse<why::channels_differ>(node.layer, Heads * Channels, node.channels);
    using Start = ParameterShape::Start;
    node.parameter = graph.add_parameter("weight", {.shape = {Channels}, .rank = 1, .start = Start::ones});
    if (Centred) graph.add_parameter("bias", {.shape = {Channels}, .rank = 1, .start = Start::zeros});
    return y;
  }
};
}  // namespace types

}  // namespace detail

/// The norm over the channels of each point. Epsilon: a std::ratio.
template <int Channels, class Epsilon = std::ratio<1, 100000>>
struct LayerNorm : detail::types::ChannelNormLayer<LayerNorm<Channels, Epsilon>, Channels, Epsilon, true> {};
/// Epsilon: a std::ratio; 0: the epsilon of the value type, PyTorch's default.
template <int Channels, class Epsilon = std::ratio<0>>
struct RMSNorm : detail::types::ChannelNormLayer<RMSNorm<Channels, Epsilon>, Channels, Epsilon, false> {};

/// The norm over the Channels of each head at each point.
template <int Heads, int Channels, class Epsilon = std::ratio<1, 100000>>
struct LayerNormOfHeads
    : detail::types::ChannelNormLayer<LayerNormOfHeads<Heads, Channels, Epsilon>, Channels, Epsilon, true, Heads> {};
template <int Heads, int Channels, class Epsilon = std::ratio<0>>
struct RMSNormOfHeads
    : detail::types::ChannelNormLayer<RMSNormOfHeads<Heads, Channels, Epsilon>, Channels, Epsilon, false, Heads> {};

}  // namespace halogen
