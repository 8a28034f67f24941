// U-Net (Ronneberger et al., 2015) with group norms: three levels, the extents of each level rounded as PyTorch does.
//
//   x: (N, In, H, W) -> (N, Out, H, W), any H, W >= 4; channels Base, 2 Base, 4 Base.
//   Placements in and out: Shard<0>, Shard<2>, Shard<3>, Replicate; collectives: those of its layers.
#pragma once

#include "halogen/layers/conv2d.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/max_pool2d.hpp"
#include "halogen/layers/relu.hpp"
#include "halogen/layers/upsample.hpp"

namespace halogen {

/// Twice convolution, norm, ReLU. Edges: Boundary<Height, Width>.
template <int In, int Out, class Edges, int Groups = 8>
using UNetBlock = Sequential<Conv2d<In, Out, Kernel<3>, Padding<1>, Edges>, GroupNorm<Groups, Out>, ReLU,
                             Conv2d<Out, Out, Kernel<3>, Padding<1>, Edges>, GroupNorm<Groups, Out>, ReLU>;

/// x beside up(inner(down(x))).
template <class Inner>
using UNetLevel = SkipConcat<Sequential<MaxPool2d<2>, Inner, UpsampleToSkip<Nearest>>>;

template <int In, int Out, int Base = 16, class Edges = Boundary<Zero, Zero>, int Groups = 8>
struct UNet
    : Sequential<Named<"enc1", UNetBlock<In, Base, Edges, Groups>>,
                 UNetLevel<Sequential<UNetBlock<Base, 2 * Base, Edges, Groups>,
                                      UNetLevel<UNetBlock<2 * Base, 4 * Base, Edges, Groups>>,
                                      UNetBlock<6 * Base, 2 * Base, Edges, Groups>>>,
                 Named<"dec1", UNetBlock<3 * Base, Base, Edges, Groups>>, Named<"head", Conv2d<Base, Out, Kernel<1>>>> {
};

}  // namespace halogen
