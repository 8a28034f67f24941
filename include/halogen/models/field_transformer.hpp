// FieldTransformer: patches of a field become points of a coarser one, which attend to their neighbourhoods, and become
// patches again. Blocks are pre-norm (Xiong et al., 2020), attention is that of Hassani et al., 2023.
//
//   x: (N, In, H, W) -> y: (N, Out, H, W), H and W at least Patch times the kernel. Where Patch does not divide them,
//   what is left at the end is read by nobody and gets the last layer's bias.
//   Placements in and out: Shard<0>, Shard<2>, Shard<3>, Replicate. Collectives: none but halos.
#pragma once

#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/dropout.hpp"
#include "halogen/layers/gelu.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/neighborhood_attention.hpp"
#include "halogen/layers/residual.hpp"

namespace halogen {

/// Two Linear with a GELU between, of each point: Hidden channels in the middle.
template <int Channels, int Hidden = 4 * Channels>
struct MLP : Sequential<Named<"fc1", Linear<Channels, Hidden>>, GELU, Named<"fc2", Linear<Hidden, Channels>>> {};

/// x + attention(norm(x)), then x + mlp(norm(x)), as timm's Block under its names. Attention keeps its channels.
/// DropPath drops each branch of a sample. Epsilon: of the norms.
template <int Channels, class Attention, class Drop = std::ratio<0>, class Epsilon = std::ratio<1, 100000>>
struct TransformerBlock : Module<TransformerBlock<Channels, Attention, Drop, Epsilon>> {
  constexpr Traced forward(Traced x) const {
    constexpr Named<"norm1", LayerNorm<Channels, Epsilon>> norm1;
    constexpr Named<"attn", Attention> attention;
    constexpr Named<"norm2", LayerNorm<Channels, Epsilon>> norm2;
    constexpr Named<"mlp", MLP<Channels>> mlp;
    const Traced seen = x + dropped(attention(norm1(x)));
    return seen + dropped(mlp(norm2(seen)));
  }

 private:
  static constexpr Traced dropped(Traced x) {
    if constexpr (Drop::num == 0)
      return x;
    else
      return DropPath<Drop>{}(x);
  }
};

namespace detail {

template <class Block, class Numbers>
struct Repeated;
template <class Block, int... I>
struct Repeated<Block, std::integer_sequence<int, I...>> {
  using type = Sequential<std::enable_if_t<(I >= 0), Block>...>;
};

}  // namespace detail

/// Depth blocks of Channels with this attention, such as MultiheadAttention<Channels, 4> of all patches.
template <int In, int Out, int Channels, int Depth, int Patch, class Attention, class Drop = std::ratio<0>>
struct PatchTransformer : Module<PatchTransformer<In, Out, Channels, Depth, Patch, Attention, Drop>> {
  static_assert(Depth > 0 && Patch > 0, "a transformer has blocks, and patches have points");
  using Block = TransformerBlock<Channels, Attention, Drop>;
  using Blocks = typename detail::Repeated<Block, std::make_integer_sequence<int, Depth>>::type;
  using Windows = ConvTranspose2d<Channels, Out, Kernel<Patch>, Stride<Patch>, OutputToSkip>;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"patch_embed", Conv2d<In, Channels, Kernel<Patch>, Stride<Patch>>> patch_embed;
    constexpr Named<"blocks", Blocks> blocks;
    constexpr Named<"norm", LayerNorm<Channels>> norm;
    constexpr Named<"recover", Windows> recover;
    x.graph->skips.push(x.node);
    const Traced y = recover(norm(blocks(patch_embed(x))));
    x.graph->skips.pop();
    return y;
  }
};

/// The same with neighbourhoods of Neighbors x Neighbors patches. Drop: of DropPath.
template <int In, int Out, int Channels = 96, int Depth = 6, int Heads = 4, int Patch = 4,
          class Edges = Boundary<Zero, Zero>, int Neighbors = 7, class Drop = std::ratio<0>>
struct FieldTransformer : PatchTransformer<In, Out, Channels, Depth, Patch,
                                           NeighborhoodAttention2d<Channels, Heads, Kernel<Neighbors>, Edges>, Drop> {};

}  // namespace halogen
