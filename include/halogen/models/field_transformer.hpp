// FieldTransformer: patches of a field become points of a coarser field. These attend to their neighbourhoods, and
// become patches again. Blocks are pre-norm (Xiong et al., 2020); attention is that of Hassani et al., 2023.
//
//   x: (N, In, H, W) -> y: (N, Out, H, W), H and W at least Patch times the kernel. If Patch does not divide them, no
//   patch reads the remaining points at the end, and the output there is the last layer's bias.
//   Placements in and out: Shard<0>, Shard<2>, Shard<3>, Replicate. Collectives: none, only halos.
#pragma once

#include <array>
#include <tuple>

#include "halogen/layers/attention/key_terms.hpp"
#include "halogen/layers/attention/neighborhood_attention.hpp"
#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/dropout.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/models/feed_forward.hpp"

namespace halogen {

/// x + attention(norm(x)), then x + mlp(norm(x)), as timm's Block with its names. Attention and Feed (MLP, SwiGLU) keep
/// their channels. DropPath drops each branch of a sample. Epsilon: of the norms.
template <int Channels, class Attention, class Drop = std::ratio<0>, class Epsilon = std::ratio<1, 100000>,
          class Feed = MLP<Channels>>
struct TransformerBlock : Module<TransformerBlock<Channels, Attention, Drop, Epsilon, Feed>> {
  Named<"norm1", LayerNorm<Channels, Epsilon>> norm1;
  Named<"attn", Attention> attention;
  Named<"norm2", LayerNorm<Channels, Epsilon>> norm2;
  Named<"mlp", Feed> mlp;

  /// The block for all points, or with a KeyMask or KeyBias if Attention takes one.
  template <detail::TellsOfKeys... Terms>
  constexpr Traced forward(Traced x, Terms... terms) const {
    const Traced seen = x + dropped(attention(norm1(x), terms...));
    return seen + dropped(mlp(norm2(seen)));
  }

  /// The block for points and tokens, if Attention takes both.
  template <class... Tokens>
    requires(sizeof...(Tokens) > 0 && (std::is_same_v<Tokens, Traced> && ...))
  constexpr auto forward(Traced x, Tokens... tokens) const {
    return after_attention(std::array{x, tokens...}, attention(norm1(x), norm1(tokens)...));
  }
  /// The same with a KeyMask or KeyBias of the points.
  template <detail::TellsOfKeys Term, class... Tokens>
    requires(sizeof...(Tokens) > 0 && (std::is_same_v<Tokens, Traced> && ...))
  constexpr auto forward(Traced x, Term term, Tokens... tokens) const {
    return after_attention(std::array{x, tokens...}, attention(norm1(x), term, norm1(tokens)...));
  }

 private:
  template <std::size_t Count>
  constexpr std::array<Traced, Count> after_attention(std::array<Traced, Count> all,
                                                      std::array<Traced, Count> seen) const {
    add_dropped(all, seen);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Traced of = norm2(all[i]);
      seen[i] = mlp(of);
    }
    add_dropped(all, seen);
    return all;
  }

  static constexpr Traced dropped(Traced x) {
    if constexpr (Drop::num == 0)
      return x;
    else
      return DropPath<Drop>{}(x);
  }
  /// A branch of a sample is dropped for its points and its tokens together.
  template <std::size_t Count>
  static constexpr void add_dropped(std::array<Traced, Count>& to, const std::array<Traced, Count>& branch) {
    int layer = -1;
    for (std::size_t i = 0; i < Count; ++i) {
      const Traced y = dropped(branch[i]);
      Node& node = y.graph->nodes[y.node];
      if (Drop::num != 0 && layer >= 0) node.layer = layer;  // the layer number by which it draws
      layer = node.layer;
      to[i] = to[i] + y;
    }
  }
};

/// Count blocks one after the other, named by position as in Sequential. It takes several values if a block returns as
/// many.
template <class Block, int Count>
struct Repeat : Module<Repeat<Block, Count>> {
  constexpr Traced forward(Traced x) const {
    for (int i = 0; i < Count; ++i) x = Module<Repeat>::call(Block{}, {{}, i}, x);
    return x;
  }
  template <class... More>
  constexpr auto forward(Traced x, More... more) const {
    std::array all{x, more...};
    for (int i = 0; i < Count; ++i)
      all = std::apply([&](auto... one) { return Module<Repeat>::call(Block{}, {{}, i}, one...); }, all);
    return all;
  }
};

/// The attention of blocks in turn: the first of these in the first block, the second in the second, and so on from the
/// beginning. For example windows, then the same shifted.
template <class... Attentions>
struct Alternating {};

namespace detail {
/// Depth blocks of Channels, each with this attention, or with those of Alternating in turn.
template <int Channels, class Attention, class Drop, int Depth>
struct BlocksOf {
  using type = Repeat<TransformerBlock<Channels, Attention, Drop>, Depth>;
};
template <int Channels, class... Attentions, class Drop, int Depth>
struct BlocksOf<Channels, Alternating<Attentions...>, Drop, Depth> {
  template <int... I>
  static auto blocks(std::integer_sequence<int, I...>) -> Sequential<
      TransformerBlock<Channels, std::tuple_element_t<I % sizeof...(Attentions), std::tuple<Attentions...>>, Drop>...>;
  using type = decltype(blocks(std::make_integer_sequence<int, Depth>{}));
};
}  // namespace detail

/// Depth blocks of Channels with this attention, such as MultiheadAttention<Channels, 4> of all patches, or an
/// Alternating of several.
template <int In, int Out, int Channels, int Depth, int Patch, class Attention, class Drop = std::ratio<0>>
struct PatchTransformer : Module<PatchTransformer<In, Out, Channels, Depth, Patch, Attention, Drop>> {
  static_assert(Depth > 0 && Patch > 0, "a transformer has blocks, and patches have points");
  using Blocks = typename detail::BlocksOf<Channels, Attention, Drop, Depth>::type;
  using Windows = ConvTranspose2d<Channels, Out, Kernel<Patch>, Stride<Patch>, OutputToSkip>;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"patch_embed", Conv2d<In, Channels, Kernel<Patch>, Stride<Patch>>> patch_embed;
    constexpr Named<"blocks", Blocks> blocks;
    constexpr Named<"norm", LayerNorm<Channels>> norm;
    constexpr Named<"recover", Windows> recover;
    return output_to(x, recover, norm(blocks(patch_embed(x))));
  }
};

/// The same with neighbourhoods of Neighbors x Neighbors patches. Drop: the probability of DropPath.
template <int In, int Out, int Channels = 96, int Depth = 6, int Heads = 4, int Patch = 4,
          class Edges = Boundary<Zero, Zero>, int Neighbors = 7, class Drop = std::ratio<0>>
struct FieldTransformer : PatchTransformer<In, Out, Channels, Depth, Patch,
                                           NeighborhoodAttention2d<Channels, Heads, Kernel<Neighbors>, Edges>, Drop> {};

}  // namespace halogen
