// U-Net (Ronneberger et al., 2015) with group norms: three levels, the extents of each level rounded as PyTorch does.
//
//   UNet    x: (N, In, H, W) -> (N, Out, H, W), any H, W >= 4
//   UNet3d  x: (N, In, D, H, W) -> (N, Out, D, H, W), any D, H, W >= 4 (Cicek et al., 2016)
//   channels Base, 2 Base, 4 Base.
//   Placements in and out: Shard<0>, Shard<2>, Shard<3>, in volumes Shard<4>, Replicate; collectives: those of its
//   layers.
#pragma once

#include "halogen/layers/conv3d.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/max_pool3d.hpp"
#include "halogen/layers/relu.hpp"
#include "halogen/layers/upsample.hpp"

namespace halogen {
namespace detail {

/// The convolution and the pool of so many dimensions.
template <int Dimensions, int In, int Out, class... Options>
using ConvolutionOf = std::conditional_t<Dimensions == 2, Conv2d<In, Out, Options...>, Conv3d<In, Out, Options...>>;
template <int Dimensions, int Size>
using MaxPoolOf = std::conditional_t<Dimensions == 2, MaxPool2d<Size>, MaxPool3d<Size>>;

}  // namespace detail

/// Twice convolution, norm, ReLU. Edges: Boundary<Height, Width>, or Boundary<Depth, Height, Width>.
template <int In, int Out, class Edges, int Groups = 8>
using UNetBlock =
    Sequential<detail::ConvolutionOf<Edges::dimensions, In, Out, Kernel<3>, Padding<1>, Edges>, GroupNorm<Groups, Out>,
               ReLU, detail::ConvolutionOf<Edges::dimensions, Out, Out, Kernel<3>, Padding<1>, Edges>,
               GroupNorm<Groups, Out>, ReLU>;

/// x beside up(inner(down(x))).
template <class Inner, int Dimensions = 2>
using UNetLevel = SkipConcat<Sequential<detail::MaxPoolOf<Dimensions, 2>, Inner, UpsampleToSkip<Nearest>>>;

/// The model of either, in as many dimensions as its edges have.
template <int In, int Out, int Base, class Edges, int Groups>
using UNetLayers =
    Sequential<Named<"enc1", UNetBlock<In, Base, Edges, Groups>>,
               UNetLevel<Sequential<UNetBlock<Base, 2 * Base, Edges, Groups>,
                                    UNetLevel<UNetBlock<2 * Base, 4 * Base, Edges, Groups>, Edges::dimensions>,
                                    UNetBlock<6 * Base, 2 * Base, Edges, Groups>>,
                         Edges::dimensions>,
               Named<"dec1", UNetBlock<3 * Base, Base, Edges, Groups>>,
               Named<"head", detail::ConvolutionOf<Edges::dimensions, Base, Out, Kernel<1>>>>;

template <int In, int Out, int Base = 16, class Edges = Boundary<Zero, Zero>, int Groups = 8>
struct UNet : UNetLayers<In, Out, Base, Edges, Groups> {
  static_assert(Edges::dimensions == 2, "UNet has a Boundary of two edges: height, width");
};

template <int In, int Out, int Base = 16, class Edges = Boundary<Zero, Zero, Zero>, int Groups = 8>
struct UNet3d : UNetLayers<In, Out, Base, Edges, Groups> {
  static_assert(Edges::dimensions == 3, "UNet3d has a Boundary of three edges: depth, height, width");
};

}  // namespace halogen
