// VisionTransformer (Dosovitskiy et al. 2021) as timm's with class_token=False and global_pool="avg", under its names
// of parameters: patches of an image become points, each with a learned number for its place, which attend to all
// others; their mean is classified.
//
//   x: (N, In, Height, Width) -> class scores: a vector (N, Classes)
//   Placements in: Shard<0>, Shard<2>, Shard<3>, Replicate; out: Shard<0>, Replicate. Collectives: the ring of
//   attention, the sum of GlobalAvgPool; every rank keeps a row and a column of patches. Errors: those of
//   PositionEmbedding2d.
#pragma once

#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/multihead_attention.hpp"
#include "halogen/layers/position_embedding.hpp"
#include "halogen/models/field_transformer.hpp"

namespace halogen {

/// As timm's vit_base_patch16_224 unless told otherwise.
template <int In, int Classes, int Height = 224, int Width = 224, int Patch = 16, int Channels = 768, int Depth = 12,
          int Heads = 12, class Drop = std::ratio<0>>
struct VisionTransformer : Module<VisionTransformer<In, Classes, Height, Width, Patch, Channels, Depth, Heads, Drop>> {
  static_assert(Depth > 0 && Patch > 0, "a transformer has blocks, and patches have points");
  static_assert(Height % Patch == 0 && Width % Patch == 0, "patches divide the image");
  using Epsilon = std::ratio<1, 1000000>;
  using Embed = Sequential<Named<"proj", Conv2d<In, Channels, Kernel<Patch>, Stride<Patch>>>>;
  using Block = TransformerBlock<Channels, MultiheadAttention<Channels, Heads>, Drop, Epsilon>;
  using Blocks = typename detail::Repeated<Block, std::make_integer_sequence<int, Depth>>::type;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"patch_embed", Embed> patch_embed;
    constexpr Named<"blocks", Blocks> blocks;
    constexpr Named<"fc_norm", LayerNorm<Channels, Epsilon>> norm;
    constexpr Named<"head", Linear<Channels, Classes>> head;
    x = PositionEmbedding2d<Channels, Height / Patch, Width / Patch>::part(patch_embed(x));
    return head(norm(GlobalAvgPool{}(blocks(x))));
  }
};

}  // namespace halogen
