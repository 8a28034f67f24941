// VisionTransformer (Dosovitskiy et al. 2021) as timm's vit_base_patch16_224 and similar models, with the same
// parameter names. Patches of an image become points with a learned position embedding. The points attend to all
// points. With WithClassToken a token attends together with them and is classified, as in torchvision.models.vit_b_16.
// Otherwise the mean of all patches is classified (class_token=False, global_pool="avg").
//
//   x: (N, In, Height, Width) -> class scores: a vector (N, Classes)
//   Placements in: Shard<0>, Shard<2>, Shard<3>, Replicate; out: Shard<0>, Replicate. Collectives: the ring of
//   attention, and the sum of GlobalAvgPool or the sums of the token. Every rank must have a row and a column of
//   patches. Errors: those of PositionEmbedding2d.
#pragma once

#include <string>

#include "halogen/layers/attention/multihead_attention.hpp"
#include "halogen/layers/class_token.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/position_embedding.hpp"
#include "halogen/models/field_transformer.hpp"

namespace halogen {

/// Option of VisionTransformer.
struct WithClassToken {};

/// The defaults are those of timm's vit_base_patch16_224. Options: WithClassToken.
template <int In, int Classes, int Height = 224, int Width = 224, int Patch = 16, int Channels = 768, int Depth = 12,
          int Heads = 12, class Drop = std::ratio<0>, class... Options>
struct VisionTransformer
    : Module<VisionTransformer<In, Classes, Height, Width, Patch, Channels, Depth, Heads, Drop, Options...>> {
  static_assert(Depth > 0 && Patch > 0, "a transformer has blocks, and patches have points");
  static_assert(Height % Patch == 0 && Width % Patch == 0, "patches divide the image");
  static_assert((std::is_same_v<Options, WithClassToken> && ...), "VisionTransformer has the option WithClassToken");
  using Epsilon = std::ratio<1, 1000000>;
  using Embed = Sequential<Named<"proj", Conv2d<In, Channels, Kernel<Patch>, Stride<Patch>>>>;
  using Block = TransformerBlock<Channels, MultiheadAttention<Channels, Heads>, Drop, Epsilon>;
  using Positions = PositionEmbedding2d<Channels, Height / Patch, Width / Patch>;

  Named<"patch_embed", Embed> patch_embed;
  Named<"blocks", Repeat<Block, Depth>> blocks;
  Named<"head", Linear<Channels, Classes>> head;

  constexpr Traced forward(Traced x) const {
    const Traced patches = patch_embed(x);
    if constexpr (sizeof...(Options) > 0) {
      constexpr Named<"norm", LayerNorm<Channels, Epsilon>> norm;
      using WithToken = typename Positions::template WithTokens<1>;
      const Traced token = WithToken::template token<0>(ClassToken<Channels>::part(x));
      const auto seen = blocks(WithToken::part(patches), token);
      return head(norm(seen[1]));
    } else {
      constexpr Named<"fc_norm", LayerNorm<Channels, Epsilon>> norm;
      return head(norm(GlobalAvgPool{}(blocks(Positions::part(patches)))));
    }
  }
};

/// The name that torchvision.models.VisionTransformer gives a parameter of this model: for load_parameters.
inline std::string torchvision_vit_name(std::string name) {
  const std::pair<const char*, const char*> parts[] = {{"cls_token", "class_token"},
                                                       {"pos_embed", "encoder.pos_embedding"},
                                                       {"patch_embed.proj.", "conv_proj."},
                                                       {"blocks.", "encoder.layers.encoder_layer_"},
                                                       {".norm1.", ".ln_1."},
                                                       {".norm2.", ".ln_2."},
                                                       {".attn.qkv.", ".self_attention.in_proj_"},
                                                       {".attn.proj.", ".self_attention.out_proj."},
                                                       {".mlp.fc1.", ".mlp.0."},
                                                       {".mlp.fc2.", ".mlp.3."}};
  for (const auto& [own, theirs] : parts)
    if (const std::size_t at = name.find(own); at != std::string::npos)
      name.replace(at, std::string_view(own).size(), theirs);
  if (name.starts_with("norm.")) return "encoder.ln." + name.substr(5);
  if (name.starts_with("head.")) return "heads." + name;
  return name;
}

}  // namespace halogen
