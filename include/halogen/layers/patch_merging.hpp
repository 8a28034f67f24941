// PatchMerging<C>: the points of each 2 x 2 patch become channels, which are normalised and reduced to half as many by
// a matrix, as in Swin (Liu et al. 2021). Parameters with timm's names: norm.weight, norm.bias (4 C), reduction.weight
// (2 C, 4 C). The points of a patch come column by column, (0, 0), (1, 0), (0, 1), (1, 1), as in Swin and torchvision.
//
//   x: (N, C, 2 H, 2 W) -> y: (N, 2 C, H, W); odd extents are refused by a CollectiveError. torchvision pads them.
//
//   placements of x                          placements of y   forward                 backward
//   Shard<0>, Shard<2>, Shard<3>, Replicate  the same          nothing; a halo of 1    the same; the bucket
//                                                              where a cut is odd
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Accumulation: that of LayerNorm and Linear.
#pragma once

#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/pixel_shuffle.hpp"

namespace halogen {

template <int C>
struct PatchMerging : Module<PatchMerging<C>> {
  constexpr Traced forward(Traced x) const {
    constexpr Named<"norm", LayerNorm<4 * C>> norm;
    constexpr Named<"reduction", Linear<4 * C, 2 * C, Bias<false>>> reduction;
    return reduction(norm(detail::types::PatchChannels{}(x)));
  }
};

}  // namespace halogen
