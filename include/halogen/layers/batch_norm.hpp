// BatchNorm<C>: y = gamma[c] * (x - mean[c]) / sqrt(variance[c] + epsilon) + beta[c], as torch.nn.BatchNorm2d and 3d.
// Training: mean and (biased) variance over the whole batch and the whole field, however both are cut, as
// torch.nn.SyncBatchNorm; a step adds them to the buffers running_mean and running_var (that one divided by count - 1)
// by momentum. Inference: by the buffers.
//
//   x: (N, C, H, W) or (N, C, D, H, W) -> y: the same  gamma, beta and both buffers: (C)
//
//   placements of x                    placements of y   forward                               backward
//   Shard<0>, Shard<2> and beyond      the same          all_gather of (count, mean, M2)       all_reduce of two sums
//                                                        of each channel; inference: nothing   a channel
//   Replicate                          the same          nothing                               nothing
//   Shard<1>, Partial                  does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. Storage and accumulation as GroupNorm's: the writer of x gathers the moments, readers normalise. Samples
// are merged in their order, then ranks. A network in an expression (value_and_grad of more than a loss) normalises by
// the batch and leaves the buffers: it may run forward more than once a step.
#pragma once

#include <ratio>

#include "halogen/layers/group_norm.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct BatchNormConstants : Constants {
  double epsilon = 0, momentum = 0;
};

/// The norm's tables by the buffers.
struct FrozenBatchNorm {
  static constexpr const char *label = "halogen::batch_norm", *name = "batch norm by buffers";
  static constexpr bool common_output = false;
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    const int channels = at.node().channels;
    const double epsilon = at.node().template as<BatchNormConstants>().epsilon;
    launch_range(
        at.space(), label, channels,
        kernels::FrozenMoments<compute_type<S>>{at.parameter(2), at.parameter(3), at.parameter(0), at.parameter(1),
                                                at.layout().samples(), channels, epsilon, at.norm_tables()});
  }
};

constexpr void batch_norm_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  if (!planner.is_plain(value)) value = planner.stored(node, value);
  Source& source = value.sources[0];
  const auto& of = node.as<BatchNormConstants>();
  const Norm norm{source.tensor, node.channels, node.channels,      node.parameter,
                  of.epsilon,    true,          node.parameter + 2, of.momentum};
  source.norm =
      planner.is_training() ? planner.add_norm(norm, node) : planner.add_frozen_norm<FrozenBatchNorm>(norm, node, 4);
  planner.set_value(node, value);
}

inline constexpr Operation batch_norm_operation{"batch_norm", batch_norm_forward, no_vjp, true};

}  // namespace detail

/// Epsilon and Momentum: std::ratio.
template <int Channels, class Epsilon = std::ratio<1, 100000>, class Momentum = std::ratio<1, 10>>
struct BatchNorm : Module<BatchNorm<Channels, Epsilon, Momentum>> {
  static_assert(Channels > 0, "a norm has channels");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    const Traced y = add_layer(x, detail::batch_norm_operation, &constants);
    Node& node = graph.nodes[y.node];
    graph.need_points(x, node.layer);
    if (node.channels != Channels) graph.refuse(Misfit::Kind::channels_differ, node.layer, Channels, node.channels);
    using Start = ParameterShape::Start;
    const auto add = [&](const char* name, Start start, bool buffer) {
      return graph.add_parameter(name, {.shape = {Channels}, .rank = 1, .start = start, .buffer = buffer});
    };
    node.parameter = add("weight", Start::ones, false);
    add("bias", Start::zeros, false);
    add("running_mean", Start::zeros, true);
    add("running_var", Start::ones, true);
    return y;
  }

 private:
  static constexpr detail::BatchNormConstants constants{
      {}, static_cast<double>(Epsilon::num) / Epsilon::den, static_cast<double>(Momentum::num) / Momentum::den};
};

/// PyTorch's names.
template <int Channels, class... Options>
using BatchNorm2d = BatchNorm<Channels, Options...>;
template <int Channels, class... Options>
using BatchNorm3d = BatchNorm<Channels, Options...>;

}  // namespace halogen
