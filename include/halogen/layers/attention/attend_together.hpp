// Attention of the points of a field and of tokens (vectors for each sample): each point and token attends to all
// points and tokens. MultiheadAttention of several values uses it.
//
//   qkv: (N, (Heads + 2 KeyHeads) E, H, W), tokens: (N, Count (Heads + 2 KeyHeads) E), one token after the other
//   -> of points (N, Heads E, H, W), of tokens (N, Count Heads E)
//
// Keys and values of the tokens come before those of the points of the first piece, and go round the ring with them.
// For a token each rank attends to its own keys; two all_reduces join the results
// (attention/parts.hpp), and backward computes them again. Backward has five more: of the queries'
// gradients, and twice of keys and of values. In deterministic attention all keys and values are gathered for the
// tokens, and nothing of queries is summed.
#pragma once

#include <optional>

#include "halogen/array/expression/regrid.hpp"
#include "halogen/attention/dry_run.hpp"
#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/concatenated_pieces.hpp"
#include "halogen/autograd/flattened_pieces.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/attention/attention_numbers.hpp"
#include "halogen/layers/attention/distance_bias.hpp"
#include "halogen/layers/attention/function_of_heads.hpp"
#include "halogen/layers/attention/key_terms.hpp"

namespace halogen::detail {

/// (N, count, Tokens, E): heads of tokens side by side (N, All E, Tokens), `count` of them starting at `first`.
template <int All, class Rows>
auto some_heads(const Rows& tokens, int first, int count) {
  const index_t width = tokens.extent(1) / All;
  return transpose<2, 3>(unflatten<1>(slice<1>(tokens, first * width, (first + count) * width), count, -1));
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

/// What tells of the keys, value `told` of a Function, comes to every rank that shares their points: forward, and again
/// for backward.
template <KeyTerm Term>
TrafficUse told_traffic(const FunctionPlace& place, std::size_t told) {
  TrafficUse use;
  if (Term == KeyTerm::none) return use;
  const auto [keys, rank] = place.layout.sequence(place.level[told]);
  use.add(place.layout.samples() * place.channels[told] * keys.piece(rank).size() *
              static_cast<index_t>(place.layout.value_bytes().computed),
          keys.parts() - 1);
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

/// What explain and dry runs ask of a functor whose queries are points: Self says where its attention takes place.
template <class Self>
struct AttendsOfPoints {
  static std::string words(const FunctionPlace& place) {
    return Self::attention_of_place(place).words(place.layout.batch_cut().extent());
  }
  static index_t memory(const FunctionPlace& place) {
    return AttentionDryRun::memory(Self::attention_of_place(place), place.layout.plan().training);
  }
};

/// How many all_reduces the gradients of what is added to the logits take, if ranks share the points.
template <AttentionLayerOptions Options, KeyTerm Term>
inline constexpr int bias_sums = Options.learns_bias() + (Term == KeyTerm::bias);

/// Keys or values of tokens and, after them, of points: heads of the points, and of all heads of the tokens those that
/// start at `first`.
template <int All, class S, class Tokens, class Points>
auto joined_rows(const Tokens& tokens, const Points& points, int first) {
  const int count = static_cast<int>(points.extent(1));
  const auto joined = as_expression(concatenate_pieces<2>(stored(some_heads<All>(tokens, first, count)), points));
  if constexpr (std::is_same_v<typename std::decay_t<decltype(joined)>::value_type, S>)
    return joined;
  else
    return zero_bounded(stored_as<field_of_t<std::decay_t<decltype(joined)>, S>>(joined));
}

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options, KeyTerm Term>
struct PointsAttend : AttendsOfPoints<PointsAttend<Heads, KeyHeads, Count, Options, Term>> {
  static constexpr int all = Heads + 2 * KeyHeads, heads = Heads, queries_of = 0, keys_of = 0;
  static constexpr bool joins_rows = true;
  static constexpr HeadPart parts[] = {
      {0, 0, Heads, all}, {0, Heads, KeyHeads, all}, {0, Heads + KeyHeads, KeyHeads, all}};

  static AttentionPlace attention_of_place(const FunctionPlace& place) {
    Cut keys = place.layout.sequence(place.level[0]).first;
    for (int part = 1; part <= keys.parts(); ++part) keys.bounds[static_cast<std::size_t>(part)] += Count;
    return attention_of_points<Heads, KeyHeads, Options>(place, all, keys);
  }
  static TrafficUse traffic(const FunctionPlace& place, bool backward, bool keeps) {
    const AttentionPlace at = attention_of_place(place);
    TrafficUse use = AttentionDryRun::traffic(at, backward, keeps);
    if (backward && at.ranks() > 1) use.all_reduces = 2 + bias_sums<Options, Term>;  // the tokens' keys and values
    use += told_traffic<Term>(place, 2);
    return use;
  }

  template <class Points, class Q, class K, class V, class Tokens, class... Beside>
  static auto attended(const std::optional<Generator>& draws, const Points& of_points, const Points&,
                       const std::tuple<Q, K, V>& rows, const Tokens& tokens, const Beside&... beside) {
    using S = typename stored_of<Q>::type;  // two-byte values are sent as two bytes
    const auto& [query, key, value] = rows;
    const auto of_tokens = rows_of<Count>(tokens);
    return attention_call(
        options_of_call<Options>(Heads != KeyHeads, draws), pair_numbers<Options, Count>(of_points, of_points),
        std::tuple_cat(attention_operands(query, joined_rows<all, S>(of_tokens, key, Heads),
                                          joined_rows<all, S>(of_tokens, value, Heads + KeyHeads)),
                       bias_of_pairs<Heads, Count, Options, Term, typename Q::value_type>(of_points, beside...)));
  }
};

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options, KeyTerm Term>
struct TokensAttend {
  static constexpr int all = Heads + 2 * KeyHeads, heads = Heads, queries_of = 1, keys_of = 1;
  static constexpr bool joins_rows = true;
  static constexpr HeadPart parts[] = {{1, Heads, KeyHeads, all}, {1, Heads + KeyHeads, KeyHeads, all}};

  static TrafficUse traffic(const FunctionPlace& place, bool backward, bool) {
    const auto [points, rank] = place.layout.sequence(place.level[1]);
    if (points.parts() == 1) return {};
    constexpr bool gathers = Options.parallel == ContextParallel::deterministic;
    TrafficUse use = told_traffic<Term>(place, 2);
    if (gathers) {  // keys and values go to all others
      const index_t rows = points.piece(rank).size() + (rank == 0 ? Count : 0), width = place.channels[1] / all;
      use.add(
          place.layout.samples() * KeyHeads * rows * width * static_cast<index_t>(place.layout.value_bytes().stored),
          2 * (points.parts() - 1));
    } else {
      use.all_reduces = 2;  // the queries' results, also for backward
    }
    if (backward) use.all_reduces += !gathers + 2 + bias_sums<Options, Term>;  // the gradients of queries, keys, values
    return use;
  }

  template <class Points, class K, class V, class Tokens, class... Beside>
  static auto attended(const std::optional<Generator>& draws, const Points& of_points, const Points&,
                       const std::tuple<K, V>& rows, const Tokens& tokens, const Beside&... beside) {
    using S = typename stored_of<K>::type;
    const auto of_tokens = rows_of<Count>(tokens);
    const auto keys = [&](const auto& of, int first) {
      const auto joined = joined_rows<all, S>(of_tokens, of, first);
      using Cut = typename std::decay_t<decltype(joined)>::placed;
      if constexpr (Options.parallel == ContextParallel::deterministic)  // each rank takes all of them in their order
        return redistribute<typename field_of<S, typename placed_instead<2, replicate_code, Cut>::type>::type>(joined);
      else
        return joined;
    };
    const auto seen = attention_of(attention_call(
        options_of_call<Options>(Heads != KeyHeads, draws), pair_numbers<Options, Count, true>(of_points, of_points),
        std::tuple_cat(operands_apart(held<S>(some_heads<all>(of_tokens, 0, Heads)), keys(std::get<0>(rows), Heads),
                                      keys(std::get<1>(rows), Heads + KeyHeads)),
                       bias_of_pairs<Heads, Count, Options, Term, typename K::value_type>(of_points, beside...))));
    return flatten<1, 3>(transpose<1, 2>(seen));  // (N, K, H, E), then (N, K H E)
  }
};

}  // namespace halogen::detail
