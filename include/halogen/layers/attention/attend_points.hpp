// Attention of the points of a level: the functions that attention layers use.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <ratio>

#include "halogen/autograd/attention.hpp"
#include "halogen/layers/attention/attend_together.hpp"
#include "halogen/layers/attention/attention_numbers.hpp"
#include "halogen/layers/attention/attention_options.hpp"
#include "halogen/layers/attention/function_of_heads.hpp"
#include "halogen/layers/attention/key_terms.hpp"
#include "halogen/layers/chunk.hpp"
#include "halogen/layers/class_token.hpp"
#include "halogen/layers/rotary_embedding.hpp"

namespace halogen {

namespace detail {

/// One value holds query, key and value one after the other. With Apart a second value holds key and value. Another
/// value may hold a mask or bias of keys, or a table of relative positions. (N, (Heads + 2 KeyHeads) E, ...) -> (N,
/// Heads E, ...).
template <int Heads, int KeyHeads, AttentionLayerOptions Options, KeyTerm Term, bool Apart = false>
struct AttendToAll : AttendsOfPoints<AttendToAll<Heads, KeyHeads, Options, Term, Apart>> {
  static constexpr int all = Heads + 2 * KeyHeads, heads = Heads, queries_of = 0, keys_of = Apart ? 1 : 0;
  static constexpr bool joins_rows = false;
  static constexpr HeadPart parts[] = {
      {0, 0, Heads, Apart ? Heads : all},
      {keys_of, Apart ? 0 : Heads, KeyHeads, Apart ? 2 * KeyHeads : all},
      {keys_of, Apart ? KeyHeads : Heads + KeyHeads, KeyHeads, Apart ? 2 * KeyHeads : all}};

  static AttentionPlace attention_of_place(const FunctionPlace& place) {
    const Cut keys = place.layout.sequence(place.level[keys_of]).first;
    return attention_of_points<Heads, KeyHeads, Options>(place, Apart ? Heads : all, keys);
  }
  static TrafficUse traffic(const FunctionPlace& place, bool backward, bool keeps) {
    const AttentionPlace at = attention_of_place(place);
    TrafficUse use = AttentionDryRun::traffic(at, backward, keeps);
    use.all_reduces = backward && at.ranks() > 1 ? bias_sums<Options, Term> : 0;
    use += told_traffic<Term>(place, Apart ? 2 : 1);
    return use;
  }

  template <class Queries, class Keys, class Q, class K, class V, class... Beside>
  static auto attended(const std::optional<Generator>& draws, const Queries& of_queries, const Keys& of_keys,
                       const std::tuple<Q, K, V>& rows, const Beside&... beside) {
    const auto& [query, key, value] = rows;
    return attention_call(
        options_of_call<Options>(Heads != KeyHeads, draws), pair_numbers<Options>(of_queries, of_keys),
        std::tuple_cat(attention_operands(query, key, value),
                       bias_of_pairs<Heads, 0, Options, Term, typename Q::value_type>(of_queries, beside...)));
  }
};

/// Attention of query, key and value in one value.
template <int Heads, class... Options>
struct Attending {
  static_assert(Heads > 0, "attention has heads");
  static constexpr AttentionLayerOptions options = attention_options<Options...>();
  static constexpr int key_heads = options.key_heads > 0 ? options.key_heads : Heads, all = Heads + 2 * key_heads;
  static_assert(Heads % key_heads == 0, "the heads are a multiple of KeyValueHeads");
  static constexpr RotaryConstants turns{{}, all, Heads + key_heads, options.rotary, static_cast<double>(options.base)},
      turns_queries{{}, Heads, Heads, options.rotary, static_cast<double>(options.base)},
      turns_keys{{}, 2 * key_heads, key_heads, options.rotary, static_cast<double>(options.base)};

  /// Call it before the channels of a layer are computed.
  static constexpr void check(Traced x, int channels) {
    if (channels % Heads != 0) x.graph->refuse<why::groups_do_not_divide>(x.graph->layers, Heads, channels);
  }

  static constexpr Traced turned(Traced qkv) {
    if constexpr (options.rotary > 0) return add_rotary(qkv, turns);
    return qkv;
  }

  /// `terms`: none, or a KeyMask or KeyBias.
  template <class... Terms>
  static constexpr Traced of(Traced qkv, Terms... terms) {
    check_terms<Terms...>();
    GraphDraft& graph = *qkv.graph;
    const int channels = (*qkv).channels;
    if (channels % all != 0) graph.refuse<why::groups_do_not_divide>(graph.layers, all, channels);
    qkv = turned(qkv);
    const Traced y = attended(qkv, terms...);
    Node& node = graph.nodes[y.node];
    node.channels = channels / all * Heads;
    if (options.is_causal) graph.slide(1, node.layer);
    if (options.grid_dimensions > 0) graph.slide(options.grid_dimensions, node.layer);
    return y;
  }

  /// Attention of queries to keys and values in another value, whose resolution may differ.
  template <class... Terms>
  static constexpr Traced across(Traced q, Traced kv, Terms... terms) {
    check_terms<Terms...>();
    static_assert(options.grid_dimensions == 0, "RelativeBias and DistanceBias are of points to points of one value");
    GraphDraft& graph = *q.graph;
    if constexpr (options.rotary > 0) {
      q = add_rotary(q, turns_queries);
      kv = add_rotary(kv, turns_keys);
    }
    (check_term(terms), ...);
    using F = AttendToAll<Heads, key_heads, options, term_of<Terms...>(), true>;
    using Free = TakesAnyResolution<1, 2>;
    const Traced y = Drawing<F, Free>{}(q, kv, terms.value...);
    if (options.is_causal) graph.slide(1, graph.nodes[y.node].layer);
    return y;
  }

  /// Attention of points and tokens, as of(). The result of the points comes first.
  template <int Channels, std::size_t Tokens, class... Terms>
  static constexpr std::array<Traced, 1 + Tokens> together(Traced points, const std::array<Traced, Tokens>& tokens,
                                                           Terms... terms) {
    static_assert(!options.is_causal, "attention with tokens is not causal: leave IsCausal out");
    check_terms<Terms...>();
    (check_term(terms), ...);
    constexpr int count = static_cast<int>(Tokens);
    Traced beside = tokens[0];
    for (std::size_t i = 1; i < Tokens; ++i) beside = concat(beside, tokens[i]);
    points = turned(points);
    constexpr KeyTerm term = term_of<Terms...>();
    constexpr bool has_table = options.learns_bias();
    constexpr int table = 2 + static_cast<int>(sizeof...(Terms));  // after what tells of the keys
    using OfPoints =
        Drawing<PointsAttend<Heads, key_heads, count, options, term>,
                std::conditional_t<has_table, TakesVectors<1, table>, TakesVectors<1>>, halogen::Channels<Channels>>;
    using OfTokens = Drawing<TokensAttend<Heads, key_heads, count, options, term>,
                             std::conditional_t<has_table, TakesVectors<0, table>, TakesVectors<0>>, ToVector,
                             halogen::Channels<count * Channels>>;
    Traced seen, of_tokens;
    const auto attend = [&](auto... more) {
      seen = OfPoints{}(points, beside, more...);
      of_tokens = OfTokens{}(beside, points, more...);
    };
    if constexpr (has_table)
      attend(terms.value..., distance_table(points, token_entries));
    else
      attend(terms.value...);
    if (options.grid_dimensions > 0) points.graph->slide(options.grid_dimensions, points.graph->nodes[seen.node].layer);
    if constexpr (count == 1) return {seen, of_tokens};
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array{seen, add_chunk<static_cast<int>(I), 1, count>(of_tokens)...};
    }(std::make_index_sequence<Tokens>{});
  }

  /// Query, key and value with the norms of QueryKeyNorm. The norms' parameters belong to the layer that calls it.
  template <int Channels>
  static constexpr Traced normed(Traced qkv) {
    if constexpr (options.normed) {
      const Traced query = norm_of_queries<Channels>(add_chunk<0, Heads, all>(qkv));
      const Traced key = norm_of_keys<Channels>(add_chunk<Heads, key_heads, all>(qkv));
      qkv = concat(concat(query, key), add_chunk<Heads + key_heads, key_heads, all>(qkv));
    }
    return qkv;
  }
  template <int Channels>
  static constexpr Traced normed_queries(Traced q) {
    if constexpr (options.normed) return norm_of_queries<Channels>(q);
    return q;
  }
  template <int Channels>
  static constexpr Traced normed_keys(Traced kv) {
    if constexpr (options.normed) {
      const Traced key = norm_of_keys<Channels>(add_chunk<0, key_heads, 2 * key_heads>(kv));
      kv = concat(key, add_chunk<key_heads, key_heads, 2 * key_heads>(kv));
    }
    return kv;
  }

 private:
  template <class... Terms>
  static constexpr void check_terms() {
    static_assert(sizeof...(Terms) <= 1, "attention takes a KeyMask or a KeyBias");
    static_assert(options.grid_dimensions == 0 || term_of<Terms...>() != KeyTerm::bias,
                  "a KeyBias goes with neither RelativeBias nor DistanceBias: these take a KeyMask");
  }
  template <class Term>
  static constexpr void check_term(Term term) {
    const Traced value = term.value;
    const int channels = (*value).channels;
    if (channels != 1 && channels != Heads)
      value.graph->refuse<why::channels_differ>(value.graph->layers, Heads, channels);
  }
  template <class... Terms>
  static constexpr Traced attended(Traced qkv, Terms... terms) {
    (check_term(terms), ...);
    constexpr KeyTerm term = term_of<Terms...>();
    if constexpr (options.learns_bias())
      return Called<term, TakesVectors<1 + sizeof...(Terms)>>{}(qkv, terms.value..., distance_table(qkv, 0));
    else
      return Called<term>{}(qkv, terms.value...);
  }
  /// The vector of RelativeBias's table: its entries for distances, then `more`.
  static constexpr Traced distance_table(Traced beside, int more) {
    const int entries = options.distances() + more;
    // uniform, of deviation 1 / sqrt(3 fan_in) = 0.02, as Swin's
    const Traced table = add_vector_row(beside, "relative_position_bias_table",
                                        {.shape = {entries, Heads}, .rank = 2, .fan_in = 833}, vector_row<0>);
    table.graph->nodes[table.node].channels = entries * Heads;
    return table;
  }
  template <class F, class... More>
  using Drawing = std::conditional_t<options.draws(), Function<F, halogen::Draws, More...>, Function<F, More...>>;
  template <KeyTerm Term, class... More>
  using Called = Drawing<AttendToAll<Heads, key_heads, options, Term>, More...>;

  template <int Channels>
  static constexpr Traced norm_of_queries(Traced query) {
    constexpr Named<"q_norm", Norm<Heads, Channels / Heads>> norm;
    return norm(query);
  }
  template <int Channels>
  static constexpr Traced norm_of_keys(Traced key) {
    constexpr Named<"k_norm", Norm<key_heads, Channels / Heads>> norm;
    return norm(key);
  }
  template <int Count, int Width>
  using Norm = std::conditional_t<options.centred, LayerNormOfHeads<Count, Width>, RMSNormOfHeads<Count, Width>>;
};

}  // namespace detail
}  // namespace halogen
