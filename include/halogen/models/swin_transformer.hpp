// SwinTransformer (Liu et al. 2021) as timm's swin_tiny_patch4_window7_224 and similar models, with the same parameter
// names: attention inside windows, which are shifted in every other block, on levels with PatchMerging between them.
//
//   x: (N, In, H, W) -> class scores: a vector (N, Classes); Patch 2^(levels - 1) divides H and W
//   Placements in: Shard<0>, Shard<2>, Shard<3>, Replicate; out: Shard<0>, Replicate. Collectives: halos of windows
//   that a cut divides, and the sum of GlobalAvgPool. Every rank must have a row and a column of the coarsest level.
//
// A window that reaches beyond a level has fewer points: no point attends to pads. PaddedSwinTransformer pads such a
// level as timm does (PadToWindows); then each rank must have a whole window of the coarsest level.
#pragma once

#include "halogen/layers/attention/window_attention.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/patch_merging.hpp"
#include "halogen/models/field_transformer.hpp"

namespace halogen {
namespace detail {

/// Windows, and the same shifted by half a window, in turn. Pads: PadToWindows.
template <int Channels, int Heads, int Window, class Pads>
using SwinAttention = Alternating<WindowAttention2d<Channels, Heads, Kernel<Window>, Pads>,
                                  WindowAttention2d<Channels, Heads, Kernel<Window>, Shifted<Window / 2>, Pads>>;

/// One level: PatchMerging to half as many points in each dimension, followed by Depth blocks.
template <int Level, int Channels, int Heads, int Window, int Depth, class Drop, class Pads>
struct SwinStage : Module<SwinStage<Level, Channels, Heads, Window, Depth, Drop, Pads>> {
  using Blocks = typename BlocksOf<Channels, SwinAttention<Channels, Heads, Window, Pads>, Drop, Depth>::type;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"blocks", Blocks> blocks;
    if constexpr (Level > 0) {
      constexpr Named<"downsample", PatchMerging<Channels / 2>> downsample;
      x = downsample(x);
    }
    return blocks(x);
  }
};

template <int Channels, int Heads, int Window, class Drop, class Pads, class Levels, class Depths>
struct SwinStages;
template <int Channels, int Heads, int Window, class Drop, class Pads, int... L, int... Depths>
struct SwinStages<Channels, Heads, Window, Drop, Pads, std::integer_sequence<int, L...>,
                  std::integer_sequence<int, Depths...>> {
  using type = Sequential<SwinStage<L, (Channels << L), (Heads << L), Window, Depths, Drop, Pads>...>;
};

namespace types {
template <class Self, class Pads, int In, int Classes, int Channels, int Heads, int Window, int Patch, class Drop,
          int... Depths>
struct Swin : Module<Self> {
  static_assert(sizeof...(Depths) > 0 && ((Depths > 0) && ...), "a transformer has levels, and levels have blocks");
  static constexpr int levels = sizeof...(Depths), last = Channels << (levels - 1);
  using Embed =
      Sequential<Named<"proj", Conv2d<In, Channels, Kernel<Patch>, Stride<Patch>>>, Named<"norm", LayerNorm<Channels>>>;
  using Stages =
      typename detail::SwinStages<Channels, Heads, Window, Drop, Pads, std::make_integer_sequence<int, levels>,
                                  std::integer_sequence<int, Depths...>>::type;

  constexpr Traced forward(Traced x) const {
    constexpr Named<"patch_embed", Embed> patch_embed;
    constexpr Named<"layers", Stages> layers;
    constexpr Named<"norm", LayerNorm<last>> norm;
    constexpr Named<"head", Sequential<Named<"fc", Linear<last, Classes>>>> head;
    return head(GlobalAvgPool{}(norm(layers(patch_embed(x)))));
  }
};
}  // namespace types

}  // namespace detail

/// Channels and Heads belong to the first level; each next level has twice as many. Depths: the blocks of each level.
/// Drop: the probability of DropPath.
template <int In, int Classes, int Channels, int Heads, int Window, int Patch, class Drop, int... Depths>
struct SwinTransformer
    : detail::types::Swin<SwinTransformer<In, Classes, Channels, Heads, Window, Patch, Drop, Depths...>,
                          PadToWindows<false>, In, Classes, Channels, Heads, Window, Patch, Drop, Depths...> {};
/// The same, with levels padded to whole windows.
template <int In, int Classes, int Channels, int Heads, int Window, int Patch, class Drop, int... Depths>
struct PaddedSwinTransformer
    : detail::types::Swin<PaddedSwinTransformer<In, Classes, Channels, Heads, Window, Patch, Drop, Depths...>,
                          PadToWindows<>, In, Classes, Channels, Heads, Window, Patch, Drop, Depths...> {};

template <int In, int Classes, class Drop = std::ratio<0>>
struct SwinTiny : SwinTransformer<In, Classes, 96, 3, 7, 4, Drop, 2, 2, 6, 2> {};
template <int In, int Classes, class Drop = std::ratio<0>>
struct SwinSmall : SwinTransformer<In, Classes, 96, 3, 7, 4, Drop, 2, 2, 18, 2> {};

}  // namespace halogen
