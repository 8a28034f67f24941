// ResNet (He et al., 2015) as torchvision.models.resnet18, 34 and 50, with the same parameter names.
//
//   x: (N, In, H, W) -> class scores: a vector (N, Classes), for any H, W with which every rank has a row and a column
//   of the coarsest level, 1 / 32 of x
//   Width: channels of the first level, 64 in torchvision's.
//   Placements in: Shard<0>, Shard<2>, Shard<3>, Replicate; out: Shard<0>, Replicate. Collectives: those of its layers.
#pragma once

#include "halogen/layers/activations/relu.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/conv2d.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/max_pool2d.hpp"
#include "halogen/layers/residual.hpp"

namespace halogen {
namespace detail {

/// A convolution without bias, and its norm: children "conv<N>" and "bn<N>" of a block.
template <fixed_string Convolution, fixed_string NormName, int In, int Out, int Size, int Step>
struct ConvolutionNorm {
  Named<Convolution, Conv2d<In, Out, Kernel<Size>, Stride<Step>, Padding<Size / 2>, Bias<false>>> convolution;
  Named<NormName, BatchNorm<Out>> norm;
  constexpr Traced operator()(Traced x) const { return norm(convolution(x)); }
};

/// The shortcut of a block, and the block's output.
template <int In, int Out, int Step>
constexpr Traced add_shortcut(Traced x, Traced y) {
  constexpr ReLU relu;
  if constexpr (In == Out && Step == 1) {
    return relu(x + y);
  } else {
    constexpr Named<"downsample", Sequential<Conv2d<In, Out, Stride<Step>, Bias<false>>, BatchNorm<Out>>> downsample;
    return relu(downsample(x) + y);
  }
}

}  // namespace detail

/// Two 3 x 3 convolutions and a shortcut. In and Out channels; the stride of the first convolution.
template <int In, int Out, int Step = 1>
struct BasicBlock : Module<BasicBlock<In, Out, Step>> {
  constexpr Traced forward(Traced x) const {
    constexpr ReLU relu;
    constexpr detail::ConvolutionNorm<"conv1", "bn1", In, Out, 3, Step> first;
    constexpr detail::ConvolutionNorm<"conv2", "bn2", Out, Out, 3, 1> second;
    return detail::add_shortcut<In, Out, Step>(x, second(relu(first(x))));
  }
};

/// A 3 x 3 convolution of Out / 4 channels between two 1 x 1 convolutions, and a shortcut.
template <int In, int Out, int Step = 1>
struct Bottleneck : Module<Bottleneck<In, Out, Step>> {
  constexpr Traced forward(Traced x) const {
    constexpr ReLU relu;
    constexpr detail::ConvolutionNorm<"conv1", "bn1", In, Out / 4, 1, 1> first;
    constexpr detail::ConvolutionNorm<"conv2", "bn2", Out / 4, Out / 4, 3, Step> second;
    constexpr detail::ConvolutionNorm<"conv3", "bn3", Out / 4, Out, 1, 1> third;
    return detail::add_shortcut<In, Out, Step>(x, third(relu(second(relu(first(x))))));
  }
};

namespace detail {

template <template <int, int, int> class Block, int In, int Out, int Step, class Rest>
struct ResNetStage;
template <template <int, int, int> class Block, int In, int Out, int Step, int... Rest>
struct ResNetStage<Block, In, Out, Step, std::integer_sequence<int, Rest...>> {
  using type = Sequential<Block<In, Out, Step>, std::enable_if_t<(Rest >= 0), Block<Out, Out, 1>>...>;
};
template <template <int, int, int> class Block, int In, int Out, int Step, int Blocks>
using resnet_stage = typename ResNetStage<Block, In, Out, Step, std::make_integer_sequence<int, Blocks - 1>>::type;

/// Blocks of each stage.
constexpr std::array<int, 4> resnet_blocks(int depth) {
  if (depth == 18) return {2, 2, 2, 2};
  return {3, 4, 6, 3};
}

template <template <int, int, int> class Block, std::array<int, 4> Blocks, int First, int Width>
using ResNetStages = Sequential<Named<"layer1", resnet_stage<Block, First, Width, 1, Blocks[0]>>,
                                Named<"layer2", resnet_stage<Block, Width, 2 * Width, 2, Blocks[1]>>,
                                Named<"layer3", resnet_stage<Block, 2 * Width, 4 * Width, 2, Blocks[2]>>,
                                Named<"layer4", resnet_stage<Block, 4 * Width, 8 * Width, 2, Blocks[3]>>>;

}  // namespace detail

template <int Depth, int Classes = 1000, int In = 3, int Width = 64>
struct ResNet : Module<ResNet<Depth, Classes, In, Width>> {
  static_assert(Depth == 18 || Depth == 34 || Depth == 50, "ResNet has a depth of 18, 34 or 50");
  static constexpr std::array<int, 4> blocks = detail::resnet_blocks(Depth);
  static constexpr int expansion = Depth == 50 ? 4 : 1;
  using Stages = std::conditional_t<Depth == 50, detail::ResNetStages<Bottleneck, blocks, Width, 4 * Width>,
                                    detail::ResNetStages<BasicBlock, blocks, Width, Width>>;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"conv1", Conv2d<In, Width, Kernel<7>, Stride<2>, Padding<3>, Bias<false>>> convolution;
    constexpr Named<"bn1", BatchNorm<Width>> norm;
    constexpr ReLU relu;
    constexpr MaxPool2d<3, Stride<2>, Padding<1>> pool;
    constexpr GlobalAvgPool mean;
    constexpr Named<"fc", Linear<8 * Width * expansion, Classes>> scores;
    return scores(mean(Stages{}.forward(pool(relu(norm(convolution(x)))))));
  }
};

}  // namespace halogen
