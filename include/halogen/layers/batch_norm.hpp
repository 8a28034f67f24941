// BatchNorm<C>: y = gamma[c] * (x - mean[c]) / sqrt(variance[c] + epsilon) + beta[c], as torch.nn.BatchNorm2d and 3d.
// In training, mean and (biased) variance are those of the whole batch and the whole field, even if both are cut, as in
// torch.nn.SyncBatchNorm. A step adds them by momentum to the buffers running_mean and running_var (the variance
// divided by count - 1). In inference the norm uses the buffers.
//
//   x: (N, C, H, W) or (N, C, D, H, W) -> y: the same; gamma, beta and both buffers: (C); with Affine<false> there are
//   no gamma and beta: they are 1 and 0
//
//   placements of x                    placements of y   forward                               backward
//   Shard<0>, Shard<2> and beyond      the same          all_gather of (count, mean, M2)       all_reduce of two sums
//                                                        of each channel; inference: nothing   a channel
//   Replicate                          the same          nothing                               nothing
//   Shard<1>, Partial                  does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. Storage and accumulation as GroupNorm's: the launch that writes x gathers the moments, and the launches
// that read x normalise. Samples are merged in their order, then ranks. Errors: CollectiveError where a channel has one
// value in training (one sample of one point), as in PyTorch. A network in an expression (value_and_grad of
// more than a loss) normalises by the batch and does not change the buffers, because it may run forward more than once
// a step. In an InEvaluation layer it uses the buffers in training too, and does not change them: the gradient is that
// of a scale and a shift for each channel.
#pragma once

#include <ratio>

#include "halogen/layers/functions/map.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct BatchNormConstants : Constants {
  double epsilon = 0, momentum = 0;
  bool affine = true;

  /// The first buffer of the node's parameters. It comes after gamma and beta.
  constexpr int buffers() const { return affine ? 2 : 0; }
};

/// Computes the tables of the scale and the shift from the buffers.
struct FrozenBatchNorm {
  static constexpr const char *label = "halogen::batch_norm", *name = "batch norm by buffers";
  static constexpr bool common_output = false;
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    const int channels = at.node().channels;
    const auto& of = at.node().template as<BatchNormConstants>();
    const int mean = of.buffers();
    launch_range(at.space(), label, channels,
                 kernels::FrozenMoments<compute_type<S>>{at.parameter(mean), at.parameter(mean + 1),
                                                         of.affine ? at.parameter(0) : nullptr,
                                                         of.affine ? at.parameter(1) : nullptr, at.layout().samples(),
                                                         channels, of.epsilon, at.affine_tables()});
  }
};

constexpr void batch_norm_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  if (!planner.is_plain(value)) value = planner.stored(node, value);
  Source& source = value.sources[0];
  const auto& of = node.as<BatchNormConstants>();
  AffineTable affine{
      .tensor = source.tensor, .groups = node.channels, .channels = node.channels, .epsilon = of.epsilon};
  affine.of_batch = true;
  affine.parameter = of.affine ? node.parameter : -1;
  affine.running = node.parameter + of.buffers();
  affine.momentum = of.momentum;
  source.affine = planner.is_training() ? planner.add_affine(affine, node)
                                        : planner.add_frozen_affine<FrozenBatchNorm>(affine, node, 2 + of.buffers());
  planner.set_value(node, value);
}

inline constexpr Operation batch_norm_operation{"batch_norm", batch_norm_forward, no_vjp, true};

/// The norm by the buffers, as a function of points. Its parameters are the layer's.
template <class Epsilon, bool Affine>
struct NormByBuffers {
  static constexpr const char* label = "halogen::batch_norm_by_buffers";
  static constexpr double epsilon = static_cast<double>(Epsilon::num) / Epsilon::den;
  static constexpr ChannelParameter parameters[] = {{"weight"}, {"bias"}, {"running_mean"}, {"running_var"}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T weight, T bias, T mean, T variance) const {
    using Kokkos::sqrt;
    return (x - mean) / sqrt(variance + T(epsilon)) * weight + bias;
  }
};
template <class Epsilon>
struct NormByBuffers<Epsilon, false> {
  static constexpr const char* label = NormByBuffers<Epsilon, true>::label;
  static constexpr ChannelParameter parameters[] = {{"running_mean"}, {"running_var"}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T mean, T variance) const {
    return NormByBuffers<Epsilon, true>{}(x, T(1), T(0), mean, variance);
  }
};

/// Of an InEvaluation layer: in training a map of points, whose gradient the map's file knows.
template <class F>
struct BatchNormInEvaluation {
  static constexpr void forward(Planner& planner, const Node& node) {
    if (planner.is_training())
      MapOf<F, 1>::forward(planner, node);
    else
      batch_norm_forward(planner, node);
  }
  static constexpr Operation operation{"batch_norm", forward, MapOf<F, 1>::vjp};
};

}  // namespace detail

/// Epsilon and Momentum: std::ratio. Option: Affine<bool> (true), whether it has gamma and beta.
template <int Channels, class Epsilon = std::ratio<1, 100000>, class Momentum = std::ratio<1, 10>, class... Options>
struct BatchNorm : Module<BatchNorm<Channels, Epsilon, Momentum, Options...>> {
  static_assert(Channels > 0, "a norm has channels");
  static_assert((detail::is_affine_option<Options> && ...),
                "BatchNorm takes Affine<bool> beside channels, epsilon and momentum");
  static constexpr bool affine = !(std::is_same_v<Options, Affine<false>> || ...);

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    using ByBuffers = detail::NormByBuffers<Epsilon, affine>;
    const Traced y = add_layer(
        x, graph.in_evaluation ? detail::BatchNormInEvaluation<ByBuffers>::operation : detail::batch_norm_operation,
        &constants);
    Node& node = graph.nodes[y.node];
    graph.need_points(x, node.layer);
    if (node.channels != Channels) graph.refuse<why::channels_differ>(node.layer, Channels, node.channels);
    using Start = ParameterShape::Start;
    const auto add = [&](const char* name, Start start, bool buffer) {
      return graph.add_parameter(name, {.shape = {Channels}, .rank = 1, .start = start, .buffer = buffer});
    };
    int first = -1;
    if (affine) {
      first = add("weight", Start::ones, false);
      add("bias", Start::zeros, false);
    }
    const int mean = add("running_mean", Start::zeros, true);
    add("running_var", Start::ones, true);
    node.parameter = affine ? first : mean;
    return y;
  }

 private:
  static constexpr detail::BatchNormConstants constants{
      {}, static_cast<double>(Epsilon::num) / Epsilon::den, static_cast<double>(Momentum::num) / Momentum::den, affine};
};

/// PyTorch's names.
template <int Channels, class... Options>
using BatchNorm2d = BatchNorm<Channels, Options...>;
template <int Channels, class... Options>
using BatchNorm3d = BatchNorm<Channels, Options...>;

}  // namespace halogen
