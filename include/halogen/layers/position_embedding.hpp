// PositionEmbedding1d, 2d, 3d<C, Extents...>: y[n, c, p] = x[n, c, p] + pos_embed[0, p, c], a learned number for each
// point of the whole field and each channel, as in a vision transformer (Dosovitskiy et al. 2021). The parameter has
// timm's name.
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W) of these extents -> y: the same; pos_embed: (1, D H W, C)
//
// WithTokens<Count>: pos_embed starts with Count more rows, for tokens. token<I>(v) = v[n, c] + pos_embed[0, I, c] for
// a vector v.
//
//
//   placements of x                          placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate the same          nothing   pos_embed's gradient in the bucket
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored. layers/point_parameters.hpp describes the memory of the table and the accumulation. Start:
// normal, of deviation 0.02. Errors: a CollectiveError that names both extents if the field has other extents. part(x):
// the same as a part of the layer that calls it. pos_embed then belongs to that layer.
#pragma once

#include "halogen/layers/class_token.hpp"
#include "halogen/layers/point_parameters.hpp"
#include "halogen/layers/residual.hpp"

namespace halogen {
namespace detail::types {

template <class Self, int Tokens, int Channels, int... Extents>
struct PositionLayer : Module<Self> {
  /// The same with rows for tokens in the table.
  template <int Count>
  struct WithTokens : PositionLayer<WithTokens<Count>, Count, Channels, Extents...> {};

  constexpr Traced forward(Traced x) const { return part(x); }
  static constexpr Traced part(Traced x) { return add_point_parameters<false, Channels, Extents...>(x, constants); }
  template <int I>
  static constexpr Traced token(Traced v) {
    static_assert(I >= 0 && I < Tokens, "token<I>: I counts the tokens of WithTokens");
    const Traced row = add_vector_row(v, "pos_embed", point_table<Channels, Extents...>(Tokens), vector_row<I>);
    return v + row;
  }

 private:
  static constexpr PointConstants constants = points_of<Extents...>("PositionEmbedding", Tokens);
};

}  // namespace detail::types

template <int C, int W>
struct PositionEmbedding1d : detail::types::PositionLayer<PositionEmbedding1d<C, W>, 0, C, W> {};
template <int C, int H, int W>
struct PositionEmbedding2d : detail::types::PositionLayer<PositionEmbedding2d<C, H, W>, 0, C, H, W> {};
template <int C, int D, int H, int W>
struct PositionEmbedding3d : detail::types::PositionLayer<PositionEmbedding3d<C, D, H, W>, 0, C, D, H, W> {};

}  // namespace halogen
