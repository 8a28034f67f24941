// ConvNeXt (Liu et al., 2022) as torchvision.models.convnext_tiny and similar models, with the same parameter names,
// without stochastic depth.
//
//   x: (N, In, H, W) -> class scores: a vector (N, Classes), for any H, W with which every rank has a row and a column
//   of the coarsest level, 1 / 32 of x
//   Placements in: Shard<0>, Shard<2>, Shard<3>, Replicate; out: Shard<0>, Replicate. Collectives: those of its layers.
#pragma once

#include "halogen/layers/activations/gelu.hpp"
#include "halogen/layers/conv2d.hpp"
#include "halogen/layers/functions/map.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"

namespace halogen {

/// x + s y, where s is a learned number for each channel that starts at 1e-6. A block adds s y to its input x.
struct LayerScale {
  static constexpr ChannelParameter parameters[] = {
      {.name = "layer_scale", .start = ParameterShape::Start::constant, .value = 1e-6, .trailing = 2}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T y, T s) const {
    return x + s * y;
  }
};

namespace detail {

using ConvNeXtEpsilon = std::ratio<1, 1000000>;

/// A 7 x 7 convolution of each channel, a norm, and two matrices at each point.
template <int Channels>
using ConvNeXtBody =
    Sequential<Conv2d<Channels, Channels, Kernel<7>, Padding<3>, Groups<Channels>>,
               Named<"2", LayerNorm<Channels, ConvNeXtEpsilon>>, Named<"3", Linear<Channels, 4 * Channels>>, GELU,
               Named<"5", Linear<4 * Channels, Channels>>>;

template <int In, int Out>
using ConvNeXtDownsampling = Sequential<LayerNorm<In, ConvNeXtEpsilon>, Conv2d<In, Out, Kernel<2>, Stride<2>>>;

}  // namespace detail

template <int Channels>
struct ConvNeXtBlock : Module<ConvNeXtBlock<Channels>> {
  constexpr Traced forward(Traced x) const {
    constexpr Named<"block", detail::ConvNeXtBody<Channels>> body;
    return Map<LayerScale>::part(x, body(x));
  }
};

namespace detail {

template <int Channels, class Blocks>
struct ConvNeXtStage;
template <int Channels, int... Blocks>
struct ConvNeXtStage<Channels, std::integer_sequence<int, Blocks...>> {
  using type = Sequential<std::enable_if_t<(Blocks >= 0), ConvNeXtBlock<Channels>>...>;
};
template <int Channels, int Blocks>
using convnext_stage = typename ConvNeXtStage<Channels, std::make_integer_sequence<int, Blocks>>::type;

}  // namespace detail

inline constexpr std::array<int, 4> convnext_tiny_channels = {96, 192, 384, 768}, convnext_tiny_blocks = {3, 3, 9, 3};

/// Channels and blocks of the four stages: those of convnext_tiny unless given.
template <int Classes = 1000, int In = 3, std::array<int, 4> Channels = convnext_tiny_channels,
          std::array<int, 4> Blocks = convnext_tiny_blocks>
struct ConvNeXt : Module<ConvNeXt<Classes, In, Channels, Blocks>> {
  using Features = Sequential<
      Sequential<Conv2d<In, Channels[0], Kernel<4>, Stride<4>>, LayerNorm<Channels[0], detail::ConvNeXtEpsilon>>,
      detail::convnext_stage<Channels[0], Blocks[0]>, detail::ConvNeXtDownsampling<Channels[0], Channels[1]>,
      detail::convnext_stage<Channels[1], Blocks[1]>, detail::ConvNeXtDownsampling<Channels[1], Channels[2]>,
      detail::convnext_stage<Channels[2], Blocks[2]>, detail::ConvNeXtDownsampling<Channels[2], Channels[3]>,
      detail::convnext_stage<Channels[3], Blocks[3]>>;
  using Classifier =
      Sequential<LayerNorm<Channels[3], detail::ConvNeXtEpsilon>, Named<"2", Linear<Channels[3], Classes>>>;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"features", Features> features;
    constexpr Named<"classifier", Classifier> classifier;
    return classifier(GlobalAvgPool{}(features(x)));
  }
};

}  // namespace halogen
