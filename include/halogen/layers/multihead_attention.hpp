// MultiheadAttention<Channels, Heads>: each point of a field attends to all points (Vaswani et al., 2017), as
// torch.nn.MultiheadAttention of (N, H W, C):
//
//   q, k, v = qkv(x);  y = proj(o),  o[n, h, p] = sum over all points j of softmax_j(q[p] k[j] / sqrt(C / Heads)) v[j]
//
//   x: (N, C, H, W), (N, C, W) or (N, C, D, H, W) -> y: the same; parameters: qkv.weight (3 C, C), qkv.bias (3 C),
//   proj.weight (C, C), proj.bias (C); with QueryKeyNorm also q_norm.weight, k_norm.weight (C / Heads), and their bias;
//   with KeyValueHeads<G> qkv makes C + 2 G C / Heads channels: keys and values have G heads, each seen by Heads / G
//
// MultiheadAttention{}(x, t, ...): of the points of x and of tokens t, vectors (N, C) such as a class token or
// registers. Each attends to all points and tokens, by the same weights -> an array of as many values, x's first.
// Rotary turns points alone. No IsCausal. Beside the ring three small all_reduces forward (layers/attend_together.hpp).
//
// CrossAttention<Channels, Heads, Context>: the same with queries of x and keys and values of a second value of x's
// resolution, of Context channels: (q, kv)(x, z); parameters: q.weight (C, C), kv.weight (2 C, Context), and their
// bias. Attend<Heads>: attention alone, (N, 3 C, ...) -> (N, C, ...), query, key and value in this order.
//
//   placements of x        placements of y   forward                        backward
//   Shard<2> and beyond    the same          keys and values round the ring twice round the ring; the bucket
//                                            of ranks that share a sample
//   Shard<0>, Replicate    the same          nothing                        the bucket
//   Shard<1>, Partial      does not compile: why::channels_are_cut, why::input_is_partial
//
// A point has no position unless Rotary or what is added before gives it one. The points of a rank are its part of the
// sequence, so nothing is gathered or renumbered, whatever is cut. Halo: none. Backward computes attention again
// (docs/extending.md, Function). Accumulation: docs/attention.md. Errors: why::groups_do_not_divide where heads do not
// divide channels; why::rank_differs where IsCausal or Rotary do not fit the field's dimensions; why::levels_differ
// where the second value of CrossAttention has another resolution.
#pragma once

#include <array>

#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/pieces.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/attend_together.hpp"
#include "halogen/layers/chunk.hpp"
#include "halogen/layers/function.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/layers/rotary_embedding.hpp"

namespace halogen {

/// A point attends to itself and to those before it. Of signals (N, C, W) alone: planes and volumes have no order.
template <bool On = true>
struct IsCausal {};
/// Queries and keys are turned as RotaryEmbedding1d, 2d or 3d does.
template <int Dimensions, int Base = 10000>
struct Rotary {};
/// Queries and keys are normed over the channels of each head before: by LayerNorm or RMSNorm, as timm's qk_norm.
template <template <int, class> class Norm = LayerNorm>
struct QueryKeyNorm {};
/// How it goes where ranks share a sample (array/attention_by_heads.hpp); automatic by default.
template <ContextParallel Way>
struct ParallelBy {};
/// Grouped queries (Ainslie et al. 2023): keys and values have Count heads, of which the heads are a multiple.
template <int Count>
struct KeyValueHeads {};

namespace detail {

/// Of query, key and value one after the other, of so many heads each: (N, (Heads + 2 KeyHeads) E, ...) -> (N, Heads E,
/// ...).
template <int Heads, int KeyHeads, bool Causal, ContextParallel Way>
struct AttendToAll {
  template <class Field>
  auto operator()(const Field& qkv) const {
    constexpr int last = placed_at<Field>::rank - 1;
    constexpr int all = Heads + 2 * KeyHeads;
    const auto points = stored(flatten_pieces<2, last>(qkv));  // (N, (Heads + 2 KeyHeads) E, L)
    const auto seen =
        scaled_dot_product_attention(some_heads<all>(points, 0, Heads), some_heads<all>(points, Heads, KeyHeads),
                                     some_heads<all>(points, Heads + KeyHeads, KeyHeads),
                                     {.is_causal = Causal, .enable_gqa = Heads != KeyHeads, .parallel = Way});
    return unflatten_pieces<2, last>(flatten<1, 2>(transpose<2, 3>(seen)), qkv);
  }
};

struct AttentionLayerOptions {
  bool bias = true, is_causal = false;
  int rotary = 0, base = 0;  ///< dimensions; 0: not turned
  bool normed = false, centred = false;
  int key_heads = 0;  ///< 0: as many as heads
  ContextParallel parallel = ContextParallel::automatic;

  template <bool On>
  constexpr void set(Bias<On>) {
    bias = On;
  }
  template <bool On>
  constexpr void set(IsCausal<On>) {
    is_causal = On;
  }
  template <int Dimensions, int Base>
  constexpr void set(Rotary<Dimensions, Base>) {
    static_assert(Dimensions >= 1 && Dimensions <= spatial_dimensions && Base > 1, "Rotary<Dimensions (1 to 3), Base>");
    rotary = Dimensions, base = Base;
  }
  constexpr void set(QueryKeyNorm<LayerNorm>) { normed = centred = true; }
  constexpr void set(QueryKeyNorm<RMSNorm>) { normed = true; }
  template <ContextParallel Way>
  constexpr void set(ParallelBy<Way>) {
    parallel = Way;
  }
  template <int Count>
  constexpr void set(KeyValueHeads<Count>) {
    static_assert(Count > 0, "keys and values have heads");
    key_heads = Count;
  }
};
template <class... Options>
constexpr AttentionLayerOptions attention_options() {
  AttentionLayerOptions options;
  (options.set(Options{}), ...);
  return options;
}

/// Attention of query, key and value in one value.
template <int Heads, class... Options>
struct Attending {
  static_assert(Heads > 0, "attention has heads");
  static constexpr AttentionLayerOptions options = attention_options<Options...>();
  static constexpr int key_heads = options.key_heads > 0 ? options.key_heads : Heads, all = Heads + 2 * key_heads;
  static_assert(Heads % key_heads == 0, "the heads are a multiple of KeyValueHeads");
  static constexpr RotaryConstants turns{{}, all, Heads + key_heads, options.rotary, static_cast<double>(options.base)};

  /// Before the channels of a layer are made.
  static constexpr void check(Traced x, int channels) {
    if (channels % Heads != 0) x.graph->refuse(Misfit::Kind::groups_do_not_divide, x.graph->layers, Heads, channels);
  }

  static constexpr Traced turned(Traced qkv) {
    if constexpr (options.rotary > 0) return add_rotary(qkv, turns);
    return qkv;
  }

  static constexpr Traced of(Traced qkv) {
    GraphDraft& graph = *qkv.graph;
    const int channels = (*qkv).channels;
    if (channels % all != 0) graph.refuse(Misfit::Kind::groups_do_not_divide, graph.layers, all, channels);
    qkv = turned(qkv);
    const Traced y = Function<AttendToAll<Heads, key_heads, options.is_causal, options.parallel>>{}(qkv);
    graph.nodes[y.node].channels = channels / all * Heads;
    if (options.is_causal) graph.slide(1, graph.nodes[y.node].layer);
    return y;
  }

  /// Of points and tokens, as of(): the points' first.
  template <int Channels, std::size_t Tokens>
  static constexpr std::array<Traced, 1 + Tokens> together(Traced points, const std::array<Traced, Tokens>& tokens) {
    static_assert(!options.is_causal, "attention with tokens is not causal: leave IsCausal out");
    constexpr int count = static_cast<int>(Tokens);
    Traced beside = tokens[0];
    for (std::size_t i = 1; i < Tokens; ++i) beside = concat(beside, tokens[i]);
    points = turned(points);
    using OfPoints =
        Function<PointsAttend<Heads, key_heads, count, options.parallel>, TakesVectors<1>, halogen::Channels<Channels>>;
    using OfTokens =
        Function<TokensAttend<Heads, key_heads, count>, TakesVectors<0>, ToVector, halogen::Channels<count * Channels>>;
    const Traced seen = OfPoints{}(points, beside);
    const Traced of_tokens = OfTokens{}(beside, points);
    if constexpr (count == 1) return {seen, of_tokens};
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array{seen, add_chunk<static_cast<int>(I), 1, count>(of_tokens)...};
    }(std::make_index_sequence<Tokens>{});
  }

  /// Query, key and value with the norms of QueryKeyNorm, which are parts of the layer that calls it.
  template <int Channels>
  static constexpr Traced normed(Traced qkv) {
    if constexpr (options.normed) {
      constexpr Named<"q_norm", Norm<Heads, Channels / Heads>> query_norm;
      constexpr Named<"k_norm", Norm<key_heads, Channels / Heads>> key_norm;
      const Traced query = query_norm(add_chunk<0, Heads, all>(qkv));
      const Traced key = key_norm(add_chunk<Heads, key_heads, all>(qkv));
      qkv = concat(concat(query, key), add_chunk<Heads + key_heads, key_heads, all>(qkv));
    }
    return qkv;
  }

 private:
  template <int Count, int Width>
  using Norm = std::conditional_t<options.centred, LayerNormOfHeads<Count, Width>, RMSNormOfHeads<Count, Width>>;
};

}  // namespace detail

/// Options: IsCausal (off), Rotary (none), KeyValueHeads (Heads), ParallelBy (automatic).
template <int Heads, class... Options>
struct Attend : Module<Attend<Heads, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  static_assert(!Attending::options.normed, "QueryKeyNorm is an option of MultiheadAttention");

  constexpr Traced forward(Traced x) const { return Attending::of(x); }
};

/// Options: Bias<bool> of qkv (true), IsCausal (off), Rotary, QueryKeyNorm (none), KeyValueHeads (Heads),
/// ParallelBy (automatic).
template <int Channels, int Heads, class... Options>
struct MultiheadAttention : Module<MultiheadAttention<Channels, Heads, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  using WithBias = Bias<Attending::options.bias>;
  Named<"qkv", Linear<Channels, Channels / Heads * Attending::all, WithBias>> qkv;
  Named<"proj", Linear<Channels, Channels>> proj;

  constexpr Traced forward(Traced x) const {
    Attending::check(x, Channels);
    const Traced of_points = qkv(x);
    const Traced normed = Attending::template normed<Channels>(of_points);
    return proj(Attending::of(normed));
  }

  /// Of points and tokens.
  template <class... More>
    requires(std::is_same_v<More, Traced> && ...)
  constexpr std::array<Traced, 2 + sizeof...(More)> forward(Traced x, Traced token, More... more) const {
    Attending::check(x, Channels);
    const auto query_key_value = [&](Traced of) {
      const Traced made = qkv(of);
      return Attending::template normed<Channels>(made);
    };
    const Traced points = query_key_value(x);
    const std::array tokens{query_key_value(token), query_key_value(more)...};
    auto seen = Attending::template together<Channels>(points, tokens);
    for (Traced& one : seen) one = proj(one);
    return seen;
  }
};

/// The same options; Bias is that of q and kv.
template <int Channels, int Heads, int Context = Channels, class... Options>
struct CrossAttention : Module<CrossAttention<Channels, Heads, Context, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  using WithBias = Bias<Attending::options.bias>;

  constexpr Traced forward(Traced x, Traced context) const {
    constexpr Named<"q", Linear<Channels, Channels, WithBias>> q;
    constexpr Named<"kv", Linear<Context, Channels / Heads * 2 * Attending::key_heads, WithBias>> kv;
    constexpr Named<"proj", Linear<Channels, Channels>> proj;
    Attending::check(x, Channels);
    const Traced query = q(x);
    const Traced key_value = kv(context);
    const Traced normed = Attending::template normed<Channels>(concat(query, key_value));
    return proj(Attending::of(normed));
  }
};

}  // namespace halogen
