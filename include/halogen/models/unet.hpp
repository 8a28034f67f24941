// U-Net (Ronneberger et al., 2015) with group norms. The default is three levels. The extents of each level are rounded
// as in PyTorch.
//
//   UNet    x: (N, In, H, W) -> (N, Out, H, W), any H, W >= 2^(Levels - 1)
//   UNet3d  x: (N, In, D, H, W) -> (N, Out, D, H, W), any D, H, W >= 2^(Levels - 1) (Cicek et al., 2016)
//   The levels have Base, 2 Base, 4 Base and so on channels; Groups divides Base.
//   Placements in and out: Shard<0>, Shard<2>, Shard<3>, in volumes Shard<4>, Replicate; collectives: those of its
//   layers.
#pragma once

#include "halogen/layers/activations/relu.hpp"
#include "halogen/layers/conv3d.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/max_pool3d.hpp"
#include "halogen/layers/upsample.hpp"

namespace halogen {
namespace detail {

/// The convolution and the pool with this number of dimensions.
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

/// concat(x, up(inner(down(x)))).
template <class Inner, int Dimensions = 2>
using UNetLevel = SkipConcat<Sequential<detail::MaxPoolOf<Dimensions, 2>, Inner, UpsampleToSkip<Nearest>>>;

namespace detail {

/// A level of Width channels and the levels below it.
template <int Width, class Edges, int Groups, int Levels>
struct UNetInner {
  using type = Sequential<UNetBlock<Width / 2, Width, Edges, Groups>,
                          UNetLevel<typename UNetInner<2 * Width, Edges, Groups, Levels - 1>::type, Edges::dimensions>,
                          UNetBlock<3 * Width, Width, Edges, Groups>>;
};
template <int Width, class Edges, int Groups>
struct UNetInner<Width, Edges, Groups, 1> {
  using type = UNetBlock<Width / 2, Width, Edges, Groups>;
};

}  // namespace detail

/// The model for planes or volumes, with as many dimensions as Edges has.
template <int In, int Out, int Base, class Edges, int Groups, int Levels>
using UNetLayers =
    Sequential<Named<"enc1", UNetBlock<In, Base, Edges, Groups>>,
               UNetLevel<typename detail::UNetInner<2 * Base, Edges, Groups, Levels - 1>::type, Edges::dimensions>,
               Named<"dec1", UNetBlock<3 * Base, Base, Edges, Groups>>,
               Named<"head", detail::ConvolutionOf<Edges::dimensions, Base, Out, Kernel<1>>>>;

template <int In, int Out, int Base = 16, class Edges = Boundary<Zero, Zero>, int Groups = 8, int Levels = 3>
struct UNet : UNetLayers<In, Out, Base, Edges, Groups, Levels> {
  static_assert(Levels >= 2, "a U-Net has at least two levels");
  static_assert(Edges::dimensions == 2, "UNet has a Boundary of two edges: height, width");
};

template <int In, int Out, int Base = 16, class Edges = Boundary<Zero, Zero, Zero>, int Groups = 8, int Levels = 3>
struct UNet3d : UNetLayers<In, Out, Base, Edges, Groups, Levels> {
  static_assert(Levels >= 2, "a U-Net has at least two levels");
  static_assert(Edges::dimensions == 3, "UNet3d has a Boundary of three edges: depth, height, width");
};

}  // namespace halogen
