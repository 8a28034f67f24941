// MultiheadAttention<Channels, Heads>: each point of a field attends to all points (Vaswani et al., 2017), as
// torch.nn.MultiheadAttention of (N, H W, C):
//
//   q, k, v = qkv(x);  y = proj(o),  o[n, h, p] = sum over all points j of softmax_j(q[p] k[j] / sqrt(C / Heads)) v[j]
//
//   x: (N, C, H, W), (N, C, W) or (N, C, D, H, W) -> y: the same; parameters: qkv.weight (3 C, C), qkv.bias (3 C),
//   proj.weight (C, C), proj.bias (C); with QueryKeyNorm also q_norm.weight, k_norm.weight (C / Heads), and their bias;
//   with KeyValueHeads<G> qkv makes C + 2 G C / Heads channels: keys and values have G heads, shared by Heads / G each
//
// MultiheadAttention{}(x, t, ...) takes the points of x and tokens t, vectors (N, C) such as a class token or
// registers. Each attends to all points and tokens, with the same weights. -> an array of as many values; the first
// belongs to x. Rotary turns only points. IsCausal is not allowed. In addition to the ring, forward needs two small
// all_reduces, backward seven (layers/attention/attend_together.hpp). MultiheadAttention{}(x, KeyMask{m}, t, ...) or
// KeyBias tells of the points.
//
// CrossAttention<Channels, Heads, Context>: the same with queries from x, and keys and values from a second value z of
// any resolution with Context channels. Parameters: q.weight (C, C), kv.weight (2 C, Context), and their biases.
// Attend<Heads>: attention without the linear layers, (N, 3 C, ...) -> (N, C, ...), query, key and value in this order.
//
//   placements of x        placements of y   forward                        backward
//   Shard<2> and beyond    the same          keys and values round the ring the ring again, with sums of
//                                            of ranks that share a sample   gradients; the bucket
//   Shard<0>, Replicate    the same          nothing                        the bucket
//   Shard<1>, Partial      does not compile: why::channels_are_cut, why::input_is_partial
//
// A KeyMask or KeyBias (layers/attention/key_terms.hpp) as another argument leaves out keys, or changes their logits.
// Each rank sends its part of the mask or bias to the others. The gradient of RelativeBias's table is summed by one
// all_reduce.
//
// Attention does not know positions of points, unless Rotary, RelativeBias or an embedding that was added before
// provides them. The points of a rank are its part of the sequence, so nothing is gathered or renumbered on any cut.
// Halo: none. Forward keeps y and two numbers for each head and point, from which backward computes the logits again,
// tile by tile. Memory that is not in stored tensors: attention/dry_run.hpp. Accumulation:
// docs/attention.md. Errors: why::groups_do_not_divide if heads do not divide channels; why::rank_differs if IsCausal
// or Rotary do not fit the field's dimensions.
#pragma once

#include <array>

#include "halogen/layers/attention/attend_points.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/residual.hpp"

namespace halogen {

/// Options: IsCausal (off), Rotary, RelativeBias, DistanceBias, AttentionDropout (none), KeyValueHeads (Heads),
/// ParallelBy (automatic).
template <int Heads, class... Options>
struct Attend : Module<Attend<Heads, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  static_assert(!Attending::options.normed, "QueryKeyNorm is an option of MultiheadAttention");

  template <detail::TellsOfKeys... Terms>
  constexpr Traced forward(Traced x, Terms... terms) const {
    return Attending::of(x, terms...);
  }
};

/// Options: Bias<bool> of qkv (true), IsCausal (off), Rotary, QueryKeyNorm, RelativeBias, DistanceBias,
/// AttentionDropout (none), KeyValueHeads (Heads), ParallelBy (automatic).
template <int Channels, int Heads, class... Options>
struct MultiheadAttention : Module<MultiheadAttention<Channels, Heads, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  using WithBias = Bias<Attending::options.bias>;
  Named<"qkv", Linear<Channels, Channels / Heads * Attending::all, WithBias>> qkv;
  Named<"proj", Linear<Channels, Channels>> proj;

  /// Attention to all keys, or with a KeyMask or KeyBias.
  template <detail::TellsOfKeys... Terms>
  constexpr Traced forward(Traced x, Terms... terms) const {
    Attending::check(x, Channels);
    const Traced of_points = qkv(x);
    const Traced normed = Attending::template normed<Channels>(of_points);
    return proj(Attending::of(normed, terms...));
  }

  /// Attention of points and tokens.
  template <class... More>
    requires(std::is_same_v<More, Traced> && ...)
  constexpr std::array<Traced, 2 + sizeof...(More)> forward(Traced x, Traced token, More... more) const {
    return together(x, std::array{token, more...});
  }
  /// The same with a KeyMask or KeyBias of the points. Every token is seen.
  template <detail::TellsOfKeys Term, class... More>
    requires(std::is_same_v<More, Traced> && ...)
  constexpr std::array<Traced, 2 + sizeof...(More)> forward(Traced x, Term term, Traced token, More... more) const {
    return together(x, std::array{token, more...}, term);
  }

 private:
  template <std::size_t Count, class... Terms>
  constexpr std::array<Traced, 1 + Count> together(Traced x, std::array<Traced, Count> tokens, Terms... terms) const {
    Attending::check(x, Channels);
    const auto query_key_value = [&](Traced of) {
      const Traced made = qkv(of);
      return Attending::template normed<Channels>(made);
    };
    const Traced points = query_key_value(x);
    for (Traced& token : tokens) token = query_key_value(token);
    auto seen = Attending::template together<Channels>(points, tokens, terms...);
    for (Traced& one : seen) one = proj(one);
    return seen;
  }
};

/// The same options. Bias belongs to q and kv.
template <int Channels, int Heads, int Context = Channels, class... Options>
struct CrossAttention : Module<CrossAttention<Channels, Heads, Context, Options...>> {
  using Attending = detail::Attending<Heads, Options...>;
  using WithBias = Bias<Attending::options.bias>;

  template <detail::TellsOfKeys... Terms>
  constexpr Traced forward(Traced x, Traced context, Terms... terms) const {
    constexpr Named<"q", Linear<Channels, Channels, WithBias>> q;
    constexpr Named<"kv", Linear<Context, Channels / Heads * 2 * Attending::key_heads, WithBias>> kv;
    constexpr Named<"proj", Linear<Channels, Channels>> proj;
    Attending::check(x, Channels);
    const Traced query = q(x);
    const Traced key_value = kv(context);
    const Traced normed = Attending::template normed_queries<Channels>(query);
    const Traced keys = Attending::template normed_keys<Channels>(key_value);
    return proj(Attending::across(normed, keys, terms...));
  }
};

}  // namespace halogen
