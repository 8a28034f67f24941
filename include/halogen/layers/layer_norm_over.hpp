// LayerNormOver<C, Extents...>: y[n, c, p] = weight[c, p] (x[n, c, p] - mean) / sqrt(variance + 1e-5) + bias[c, p],
// mean and (biased) variance over all channels and points of a sample, as torch.nn.LayerNorm((C, H, W)).
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W) of these extents -> y: the same; weight, bias: (C, H, W) and so on
//
//   placements of x          placements of y   forward                  backward
//   Shard<2> and beyond      the same          the sums of GroupNorm    the same; the bucket
//   Shard<0>, Replicate      the same          nothing                  the bucket
//   Shard<1>, Partial        does not compile: why::channels_are_cut, why::input_is_partial
//
// It is GroupNorm<1, C, Affine<false>> followed by w x + b: two stored fields. layers/point_parameters.hpp describes
// the memory of the tables and the accumulation. Starts as PyTorch: weight 1, bias 0. Errors: as PositionEmbedding's.
#pragma once

#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/point_parameters.hpp"

namespace halogen {

template <int C, int... Extents>
struct LayerNormOver : Module<LayerNormOver<C, Extents...>> {
  static_assert(sizeof...(Extents) >= 1 && sizeof...(Extents) <= spatial_dimensions,
                "the norm is over channels and 1 to 3 dimensions: LayerNorm<C> is over channels alone");

  constexpr Traced forward(Traced x) const {
    return detail::add_point_parameters<true, C, Extents...>(GroupNorm<1, C, Affine<false>>{}.forward(x), constants);
  }

 private:
  static constexpr detail::PointConstants constants = detail::points_of<Extents...>("LayerNormOver");
};

}  // namespace halogen
