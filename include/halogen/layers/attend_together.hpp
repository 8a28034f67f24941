// Attention of the points of a field and of tokens (vectors for each sample): each point and token attends to all
// points and tokens. MultiheadAttention of several values uses it.
//
//   qkv: (N, (Heads + 2 KeyHeads) E, H, W), tokens: (N, Count (Heads + 2 KeyHeads) E), one token after the other
//   -> of points (N, Heads E, H, W), of tokens (N, Count Heads E)
//
// Keys and values of the tokens come before those of the points of the first piece, and go round the ring with them.
// For a token each rank attends to its own keys; two all_reduces join the results (array/attention_parts.hpp). Backward
// needs the ring, and one all_reduce for each of the tokens' gradients. In deterministic attention all keys and values
// are gathered for the tokens too.
#pragma once

#include <optional>

#include "halogen/array/attention_traffic.hpp"
#include "halogen/array/regrid.hpp"
#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/concatenated_pieces.hpp"
#include "halogen/autograd/pieces.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/attention_numbers.hpp"
#include "halogen/layers/distance_bias.hpp"
#include "halogen/layers/function.hpp"
#include "halogen/layers/key_terms.hpp"

namespace halogen::detail {

/// (N, count, L, E) from (N, All E, L), which has All heads one after the other: `count` heads starting at `first`.
template <int All, class Points>
auto some_heads(const Points& points, int first, int count) {
  const index_t width = points.extent(1) / All;
  return transpose<2, 3>(unflatten<1>(slice<1>(points, first * width, (first + count) * width), count, -1));
}
/// (N, channels, Count): tokens side by side, as points.
template <int Count, class Tokens>
auto rows_of(const Tokens& tokens) {
  return stored(transpose<1, 2>(unflatten<1>(tokens, Count, -1)));
}

/// (N, channels, L): points of a field in the order of pieces.
template <class Field>
auto points_in_pieces(const Field& field) {
  return stored(flatten_pieces<2, placed_at<Field>::rank - 1>(field));
}

/// What a KeyMask or KeyBias tells of all keys, (N, 1 or heads, 1, S); of tokens before the points, 0.
template <KeyTerm Term, class T, int Tokens = 0, class Beside>
auto bias_of_keys(const Beside& beside) {
  const auto keys = points_in_pieces(beside);
  using Here = field_of_t<std::decay_t<decltype(keys)>, T>;
  using Whole =
      typename field_of<T, typename placed_instead<2, replicate_code, typename FieldLeaf<Here>::placed>::type>::type;
  auto whole = redistribute<Whole>(keys);
  whole.keeps_cuts = true;  // those of the batch are the cuts of the queries
  const auto of_all = unflatten<1>(whole, -1, 1);
  const auto told = [&] {
    if constexpr (Term == KeyTerm::mask)
      return mask_operand<T>(detach(of_all) != T(0));
    else
      return mask_operand<T>(of_all);
  }();
  if constexpr (Tokens == 0)
    return told;
  else
    return mask_operand<T>(pad<3>(told, Tokens, 0));
}

/// The options of a call, with dropout where a generator is given.
template <AttentionLayerOptions Options>
AttentionOptions options_of_call(bool grouped, const std::optional<Generator>& draws) {
  AttentionOptions options{.is_causal = Options.is_causal, .enable_gqa = grouped, .parallel = Options.parallel};
  if (!draws) return options;
  options.dropout_p = static_cast<double>(Options.dropped) / static_cast<double>(Options.dropped_of);
  options.generator = *draws;
  return options;
}

/// A tuple of what is added to the logits of the pairs of Count tokens and all points: nothing, one bias, or a bias of
/// distances and a mask of keys. `like`: the field of the points. `beside`: what tells of the keys, then the table.
template <int Heads, int Count, AttentionLayerOptions Options, KeyTerm Term, class T, class Field, class... Beside>
auto bias_of_pairs(const Field& like, const Beside&... beside) {
  if constexpr (Options.grid_dimensions == 0)
    return std::tuple(bias_of_keys<Term, T, Count>(beside)...);
  else if constexpr (Term == KeyTerm::none)
    return std::tuple(bias_of_distances<Options, Heads, T>(like, beside...));
  else
    return [&](const auto& mask, const auto&... table) {
      return std::tuple(bias_of_distances<Options, Heads, T>(like, table...), bias_of_keys<Term, T, Count>(mask));
    }(beside...);
}

/// Calls Self::attended(generator or nothing, values...).
template <class Self, AttentionLayerOptions Options>
struct AttendsWithDraws {
  template <class... X>  // the first argument is a generator if dropout is used
  auto operator()(const X&... x) const {
    if constexpr (Options.draws())
      return Self::attended(x...);
    else
      return Self::attended(std::nullopt, x...);
  }
};

/// What tells of the keys, value `told` of a Function, comes to every rank that shares their points: forward, and again
/// where backward computes the function again.
template <KeyTerm Term>
TrafficUse told_traffic(const FunctionPlace& place, std::size_t told, bool backward) {
  TrafficUse use;
  if (Term == KeyTerm::none || backward) return use;
  const auto [keys, rank] = place.layout.sequence(place.level[told]);
  for (int peer = 1; peer < keys.parts(); ++peer)
    use.add(place.layout.samples() * place.channels[told] * keys.piece(rank).size() *
            static_cast<index_t>(place.layout.value_bytes().computed));
  return use;
}

/// Attention of the points of a Function's first value, which has `all` heads, to these keys.
template <int Heads, int KeyHeads, AttentionLayerOptions Options>
AttentionPlace attention_of_points(const FunctionPlace& place, int all, const Cut& keys) {
  const Layout& layout = place.layout;
  const auto [queries, rank] = layout.sequence(place.level[0]);
  const index_t width = place.channels[0] / all;
  return {layout.samples(),    Heads, KeyHeads, width, width, queries, keys, rank, Options.is_causal, Options.parallel,
          layout.value_bytes()};
}

/// How many all_reduces the gradients of what is added to the logits take, if ranks share the points.
template <AttentionLayerOptions Options, KeyTerm Term>
inline constexpr int bias_sums = Options.learns_bias() + (Term == KeyTerm::bias);

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options, KeyTerm Term>
struct PointsAttend : AttendsWithDraws<PointsAttend<Heads, KeyHeads, Count, Options, Term>, Options> {
  static constexpr int all = Heads + 2 * KeyHeads;

  static AttentionPlace attention_of_place(const FunctionPlace& place) {
    Cut keys = place.layout.sequence(place.level[0]).first;
    for (int part = 1; part <= keys.parts(); ++part) keys.bounds[static_cast<std::size_t>(part)] += Count;
    return attention_of_points<Heads, KeyHeads, Options>(place, all, keys);
  }
  static std::string words(const FunctionPlace& place) {
    return attention_of_place(place).words(place.layout.batch_cut().extent());
  }
  static TrafficUse traffic(const FunctionPlace& place, bool backward) {
    const AttentionPlace at = attention_of_place(place);
    TrafficUse use = attention_traffic(at, backward);
    if (backward && at.ranks() > 1) use.all_reduces = 1 + bias_sums<Options, Term>;  // 1 of the tokens
    use += told_traffic<Term>(place, 2, backward);
    return use;
  }

  template <class Field, class Tokens, class... Beside>
  static auto attended(const std::optional<Generator>& draws, const Field& qkv, const Tokens& tokens,
                       const Beside&... beside) {
    constexpr int last = placed_at<Field>::rank - 1;
    const auto points = points_in_pieces(qkv);
    const auto both = stored(concatenate_pieces<2>(rows_of<Count>(tokens), points));
    using S = typename stored_of<Field>::type;  // two-byte values are sent as two bytes
    using T = typename std::decay_t<decltype(both)>::value_type;
    const auto seen =
        attention_of(options_of_call<Options>(Heads != KeyHeads, draws), pair_numbers<Options, Count>(qkv, qkv),
                     std::tuple_cat(attention_operands(held<S>(some_heads<all>(points, 0, Heads)),
                                                       held<S>(some_heads<all>(both, Heads, KeyHeads)),
                                                       held<S>(some_heads<all>(both, Heads + KeyHeads, KeyHeads))),
                                    bias_of_pairs<Heads, Count, Options, Term, T>(qkv, beside...)));
    return unflatten_pieces<2, last>(flatten<1, 2>(transpose<2, 3>(seen)), qkv);
  }
};

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options, KeyTerm Term>
struct TokensAttend : AttendsWithDraws<TokensAttend<Heads, KeyHeads, Count, Options, Term>, Options> {
  static constexpr int all = Heads + 2 * KeyHeads;

  static TrafficUse traffic(const FunctionPlace& place, bool backward) {
    if (place.layout.sequence(place.level[1]).first.parts() == 1) return {};
    const bool gathers = Options.parallel == ContextParallel::deterministic;
    const int joined = gathers ? 0 : backward ? 1 : 2;  // the queries' gradients, or their results
    TrafficUse use = told_traffic<Term>(place, 2, backward);
    use.all_reduces = joined + (backward ? 1 + bias_sums<Options, Term> : 0);
    return use;
  }

  template <class Tokens, class Field, class... Beside>
  static auto attended(const std::optional<Generator>& draws, const Tokens& tokens, const Field& qkv,
                       const Beside&... beside) {
    const auto rows = rows_of<Count>(tokens);
    const auto both = stored(concatenate_pieces<2>(rows, points_in_pieces(qkv)));
    using S = typename stored_of<Field>::type;
    using T = typename std::decay_t<decltype(both)>::value_type;
    const auto heads = [&](int first) { return held<S>(some_heads<all>(both, first, KeyHeads)); };
    const auto keys = [&](int first) {
      using Cut = typename decltype(heads(0))::placed;
      if constexpr (Options.parallel == ContextParallel::deterministic)  // each rank takes all of them in their order
        return redistribute<typename field_of<S, typename placed_instead<2, replicate_code, Cut>::type>::type>(
            heads(first));
      else
        return heads(first);
    };
    const auto seen = attention_of(
        options_of_call<Options>(Heads != KeyHeads, draws), pair_numbers<Options, Count, true>(qkv, qkv),
        std::tuple_cat(operands_apart(held<S>(some_heads<all>(rows, 0, Heads)), keys(Heads), keys(Heads + KeyHeads)),
                       bias_of_pairs<Heads, Count, Options, Term, T>(qkv, beside...)));
    return flatten<1, 3>(transpose<1, 2>(seen));  // (N, K, H, E), then (N, K H E)
  }
};

}  // namespace halogen::detail
