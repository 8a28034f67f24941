// The stage of scaled_dot_product_attention (array/attention/attention.hpp): operands, the way between ranks, what is
// kept.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "halogen/array/attention/attention_bias.hpp"
#include "halogen/array/attention/attention_by_heads.hpp"
#include "halogen/array/attention/attention_dropout.hpp"
#include "halogen/array/attention/attention_operands.hpp"
#include "halogen/array/attention/attention_order.hpp"
#include "halogen/array/attention/attention_parts.hpp"
#include "halogen/array/attention/attention_zigzag.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/halo/kept_moves.hpp"

namespace halogen {

struct AttentionOptions {
  bool is_causal = false;                      ///< query i sees keys 0..i, for any lengths
  std::optional<double> scale = std::nullopt;  ///< factor of the logits; 1 / sqrt(E) by default
  bool enable_gqa = false;  ///< query heads are a multiple of key heads: head h sees the keys of head h / multiple
  ContextParallel parallel = ContextParallel::automatic;  ///< the way, if the sequence is cut
  double dropout_p = 0;      ///< each value of softmax is 0 with this probability, else divided by 1 - dropout_p
  Generator generator = {};  ///< of dropout, which depends on it and on global positions
};

namespace detail {

/// An operand. It is stored once for both passes if it is not a field and has the placements of the result.
template <class Where, class E>
auto attention_operand(const E& e) {
  if constexpr (std::is_same_v<typename E::placed, Where>)
    return held<typename E::value_type>(e);
  else
    return e;
}

}  // namespace detail

/// Made by scaled_dot_product_attention. Computed once per evaluation. Bias: none, one, or one and a mask of keys.
template <class Q, class K, class V, class... Bias>
struct Attention
    : detail::FieldStage<
          Attention<Q, K, V, Bias...>,
          typename detail::field_of<
              std::common_type_t<typename Q::value_type, typename K::value_type, typename V::value_type>,
              typename detail::attention_places<detail::has_whole_queries<Q, K>, Q, K, V>::queries>::type> {
  /// Whether the ranks share out the keys, and each has all queries (array/attention/attention_parts.hpp).
  static constexpr bool whole_queries = detail::has_whole_queries<Q, K>;
  using Places = detail::attention_places<whole_queries, Q, K, V>;
  using Where = typename Places::queries;   ///< of queries and result
  using KeysWhere = typename Places::keys;  ///< of keys and values
  /// The type of computations; sums of float are float.
  using T = std::common_type_t<typename Q::value_type, typename K::value_type, typename V::value_type>;
  static_assert(std::is_floating_point_v<T>, "attention takes fields of float, double, bfloat16 or float16");
  using StoredQ = typename detail::stored_of<Q>::type;
  /// The stored type of the operands, if it is the same for all.
  using S = std::conditional_t<std::is_same_v<StoredQ, typename detail::stored_of<K>::type> &&
                                   std::is_same_v<StoredQ, typename detail::stored_of<V>::type>,
                               StoredQ, T>;
  using Result = typename detail::field_of<T, Where>::type;
  using Logsumexp = typename detail::field_of<T, Where>::type;  ///< (N, H, L, 1)
  static_assert(sizeof...(Bias) <= 2, "attention takes a bias, and a mask of keys beside it");
  using BiasField = typename detail::attention_bias_field<T, 0, Bias...>::type;
  using MaskField = typename detail::attention_bias_field<T, 1, Bias...>::type;
  using Ring = detail::AttentionRing<T, S>;
  using Zigzag = detail::AttentionZigzag<T, S>;
  using ByHeads = detail::AttentionByHeads<T, S, Where>;

  static constexpr const char* text = "attention, keys and values go round the ranks that cut the sequence";
  std::tuple<Q, K, V, Bias...> parts;
  AttentionOptions options;
  std::shared_ptr<const detail::PairNumbers> numbers;  ///< null: positions are the places in the sequence
  std::shared_ptr<Logsumexp> logsumexp = std::make_shared<Logsumexp>();
  std::shared_ptr<BiasField> bias = std::make_shared<BiasField>();
  std::shared_ptr<MaskField> mask = std::make_shared<MaskField>();  ///< of keys, beside a bias
  std::shared_ptr<detail::RandomPairs> dropout = std::make_shared<detail::RandomPairs>();
  /// What an earlier evaluation has found: no kernel computes it again. Null: nothing.
  struct Found {
    Result output;
    Logsumexp logsumexp;
  };
  std::shared_ptr<const Found> found;
  /// What forward keeps for backward, if it did not use the plain ring.
  std::shared_ptr<std::optional<ByHeads>> by_heads = std::make_shared<std::optional<ByHeads>>();
  std::shared_ptr<std::optional<typename Zigzag::Kept>> by_zigzag =
      std::make_shared<std::optional<typename Zigzag::Kept>>();

  Attention(std::tuple<Q, K, V, Bias...> operands, AttentionOptions o,
            std::shared_ptr<const detail::PairNumbers> of_positions = nullptr)
      : parts(std::move(operands)), options(o), numbers(std::move(of_positions)) {}

  index_t extent(int d) const {
    return d == 3 ? detail::stored_extent(std::get<2>(parts), 3) : detail::stored_extent(std::get<0>(parts), d);
  }
  template <class Operand>
  using SourceOf = decltype(detail::operand_field<S, std::conditional_t<whole_queries, placed_at<Operand>, Where>>(
      std::declval<const Operand&>()));
  template <class F>
  auto operands(const F& f) const {
    return std::apply(f, parts);
  }

  /// query, key and value as fields.
  auto fields() const {
    return std::tuple(detail::operand_field<S, Where>(std::get<0>(parts)),
                      detail::operand_field<S, KeysWhere>(std::get<1>(parts)),
                      detail::operand_field<S, KeysWhere>(std::get<2>(parts)));
  }

  /// The prepared ring for such fields. The call is local, because the shapes determine who sends what. If queries or
  /// keys are gathered, the ring sends nothing.
  template <class Query, class Key, class Value>
  Ring& ring(const Query& query, const Key& key, const Value& value) const {
    return query.mesh().template kept<detail::KeptMoves<detail::AttentionKey, Ring>>().get(
        detail::AttentionAsked{detail::place_of(query), detail::place_of(key), detail::place_of(value),
                               options.is_causal},
        [&] {
          const Decomposition& pieces = query.decomposition();
          RingSchedule schedule;
          schedule.rank = pieces.part(query.mesh().rank(), 2);
          schedule.queries = query.cut(2), schedule.keys = key.cut(2);
          if (pieces.parts(2) == 1)  // all queries are gathered and the keys are cut: only the own keys
            schedule.keys = Cut{{key.offset(2), key.offset(2) + key.local_extent(2)}};
          schedule.is_causal = options.is_causal;
          return std::make_unique<Ring>(query.mesh().communicator(pieces.mask({2})), schedule,
                                        shape_of_rank(query, key, value), group_of(query, key));
        });
  }
  /// The same for a zigzag ring.
  template <class Query, class Key, class Value>
  Zigzag& zigzag(const Query& query, const Key& key, const Value& value) const {
    return query.mesh().template kept<detail::KeptMoves<detail::AttentionKey, Zigzag>>().get(
        detail::AttentionAsked{detail::place_of(query), detail::place_of(key), detail::place_of(value), true}, [&] {
          const Decomposition& pieces = query.decomposition();
          return std::make_unique<Zigzag>(query.mesh().communicator(pieces.mask({2})),
                                          pieces.part(query.mesh().rank(), 2), query.cut(2), key.cut(2),
                                          shape_of_rank(query, key, value), group_of(query, key));
        });
  }
  double scale(index_t embedding) const {
    return options.scale.value_or(1 / std::sqrt(static_cast<double>(embedding)));
  }

  Result compute() const {
    const auto [query, key, value] = fields();
    detail::check_attention(query, key, value, options.enable_gqa);
    if constexpr (has_bias) evaluate_bias<3>(*bias, query, key, numbers != nullptr && numbers->of_table);
    if constexpr (has_mask) evaluate_bias<4>(*mask, query, key, false);
    query.shape()->agree(query.decomposition().mask({2}));  // keys and values have the same cut
    key.shape()->agree(key.decomposition().mask({2}));
    by_heads->reset();
    by_zigzag->reset();
    if (found != nullptr) return found_again(query, key, value);
    if constexpr (detail::cuts_sequence<Where>) {
      const ContextParallel way = chosen_way(query, key, value);
      if (way == ContextParallel::deterministic) {
        using Gathered = detail::field_gathered<S, Where>;
        return attended(query, keys_in_order(redistribute<Gathered>(key)), keys_in_order(redistribute<Gathered>(value)),
                        *logsumexp, {.keys = true});
      }
      if (way == ContextParallel::all_to_all) {
        ByHeads& kept = moved_to_heads(query, key, value);
        kept.output = attended(kept.query, kept.key, kept.value, kept.logsumexp, all_in_order);
        return redistribute_to(queries_as_before(kept.output), result_like(query, value));
      }
      if (way == ContextParallel::zigzag) {
        const auto result = result_like(query, value);
        Zigzag& moved = zigzag(query, key, value);
        by_zigzag->emplace(moved.forward(scale(query.extent(3)), detail::head_rows(query).read_only(),
                                         detail::head_rows(key).read_only(), detail::head_rows(value).read_only(),
                                         terms_beside(query, key, moved.query_positions(), {}),
                                         detail::head_rows(result)));
        return result;
      }
    }
    if constexpr (detail::cuts_sequence<Where>) {
      return attended(query, key, value, *logsumexp, {});
    } else if constexpr (whole_queries) {
      const auto result = attended(query, key, value, *logsumexp, {});
      joined(query, key, value)
          .join(execution_space{}, detail::head_rows(result), detail::head_rows(*logsumexp),
                static_cast<int>(value.extent(3)), key.local_extent(2) > 0);
      return result;
    } else {
      return attended(query, keys_in_order(key), keys_in_order(value), *logsumexp, {.keys = true});
    }
  }

  /// What joins the parts of ranks that share out the keys.
  template <class Query, class Key, class Value>
  detail::AttentionParts<T>& joined(const Query& query, const Key& key, const Value& value) const {
    using Parts = detail::AttentionParts<T>;
    return query.mesh().template kept<detail::KeptMoves<detail::AttentionKey, Parts>>().get(
        detail::AttentionAsked{detail::place_of(query), detail::place_of(key), detail::place_of(value), false}, [&] {
          return std::make_unique<Parts>(query.mesh().communicator(key.decomposition().mask({2})),
                                         query.local_extent(0), query.local_extent(1), query.local_extent(2),
                                         static_cast<int>(std::max(query.extent(3), value.extent(3))));
        });
  }

  /// The logarithms of the sums of exponentials, (N, H, L, 1), placed as the result. Ranks that moved rows send them.
  Logsumexp logarithms() const {
    if constexpr (detail::cuts_sequence<Where>) {
      if (by_heads->has_value() || by_zigzag->has_value()) {
        const auto [query, key, value] = fields();
        const auto sums = result_like(query, value, false);
        if (by_heads->has_value()) return redistribute_to(queries_as_before((**by_heads).logsumexp), sums);
        zigzag(query, key, value).bring_logarithms(**by_zigzag, detail::head_rows(sums));
        return sums;
      }
    }
    return *logsumexp;
  }

  /// For explain: which way attention goes.
  std::string words() const {
    if constexpr (whole_queries) {
      return "attention of queries that all ranks have, each to its own keys: two all_reduces of the queries' rows";
    } else if constexpr (!detail::cuts_sequence<Where>) {
      return "attention, nothing moves";
    } else {
      const auto [query, key, value] = fields();
      const detail::AttentionWay goes = way(query, key, value);
      return detail::words_of(goes, goes.chosen(options.parallel), query.extent(0) * static_cast<index_t>(sizeof(S)));
    }
  }

  /// Which way attention goes.
  template <class Query, class Key, class Value>
  ContextParallel chosen_way(const Query& query, const Key& key, const Value& value) const {
    return way(query, key, value).chosen(options.parallel);
  }

  /// What kernels know about pairs of queries at these positions and keys.
  template <class Query, class Key>
  kernels::PairTerms<T> terms_beside(const Query& query, const Key& key, const kernels::Positions& at,
                                     detail::InOrder in) const {
    kernels::PairTerms<T> terms;
    if constexpr (has_bias) terms.bias = detail::pair_bias<const T>(*bias, query, numbers.get(), in);
    if constexpr (has_mask) detail::add_key_mask<T>(terms.bias, *mask, query, numbers.get(), in);
    terms.dropout =
        dropout->template beside<T>(query, at, key, options.dropout_p, options.generator, numbers.get(), in);
    return terms;
  }

  static constexpr detail::InOrder all_in_order{true, true};
  /// All queries or all keys, moved to the order of their numbers, or back.
  template <class Field>
  Field queries_in_order(const Field& field) const {
    return numbers ? detail::rows_in_order(field, numbers->query_order, false) : field;
  }
  template <class Field>
  Field queries_as_before(const Field& field) const {
    return numbers ? detail::rows_in_order(field, numbers->query_order, true) : field;
  }
  template <class Field>
  Field keys_in_order(const Field& field) const {
    return numbers ? detail::rows_in_order(field, numbers->key_order, false) : field;
  }
  template <class Field>
  Field keys_as_before(const Field& field) const {
    return numbers ? detail::rows_in_order(field, numbers->key_order, true) : field;
  }

  template <class Query>
  static kernels::Positions positions_of(const Query& query) {
    return kernels::Positions::of({query.offset(2), query.offset(2) + query.local_extent(2)});
  }

 private:
  static constexpr bool has_bias = sizeof...(Bias) > 0, has_mask = sizeof...(Bias) > 1;

  /// The operands where ranks have whole heads.
  template <class Query, class Key, class Value>
  ByHeads& moved_to_heads(const Query& query, const Key& key, const Value& value) const {
    using Moved = detail::field_by_heads<S, Where>;
    return by_heads->emplace(ByHeads{queries_in_order(redistribute<Moved>(query)),
                                     keys_in_order(redistribute<Moved>(key)),
                                     keys_in_order(redistribute<Moved>(value)),
                                     {},
                                     {}});
  }
  /// What was found, and what backward needs beside it where forward moves rows.
  template <class Query, class Key, class Value>
  Result found_again(const Query& query, const Key& key, const Value& value) const {
    *logsumexp = found->logsumexp;
    if constexpr (detail::cuts_sequence<Where>) {
      const ContextParallel way = chosen_way(query, key, value);
      if (way == ContextParallel::all_to_all) {
        using Moved = detail::field_by_heads<T, Where>;
        ByHeads& kept = moved_to_heads(query, key, value);
        kept.output = queries_in_order(redistribute<Moved>(found->output));
        kept.logsumexp = queries_in_order(redistribute<Moved>(found->logsumexp));
      }
      if (way == ContextParallel::zigzag)
        by_zigzag->emplace(zigzag(query, key, value)
                               .moved(detail::head_rows(query).read_only(), detail::head_rows(key).read_only(),
                                      detail::head_rows(value).read_only(),
                                      detail::head_rows(found->output).read_only(),
                                      detail::head_rows(found->logsumexp).read_only()));
    }
    return found->output;
  }

  template <std::size_t Part, class Field, class Query, class Key>
  void evaluate_bias(Field& field, const Query& query, const Key& key, bool is_table) const {
    using Place = typename std::tuple_element_t<Part, std::tuple<Q, K, V, Bias...>>::placed;
    field = detail::operand_field<T, Place>(std::get<Part>(parts));
    detail::check_bias(field, query, key, is_table);
  }
  using BiasPart = std::tuple_element_t<sizeof...(Bias) == 0 ? 0 : 3, std::tuple<Q, K, V, Bias...>>;

  template <class Query, class Key, class Value>
  static kernels::AttentionShape shape_of_rank(const Query& query, const Key& key, const Value& value) {
    kernels::AttentionShape shape;
    shape.samples = query.local_extent(0), shape.heads = key.local_extent(1);
    shape.embedding = static_cast<int>(query.extent(3));
    shape.value_embedding = static_cast<int>(value.extent(3));
    return shape;
  }
  /// Heads of queries that see the same head of keys.
  template <class Query, class Key>
  static index_t group_of(const Query& query, const Key& key) {
    return key.extent(1) == 0 ? 1 : query.extent(1) / key.extent(1);
  }

  template <class Query, class Key, class Value>
  detail::AttentionWay way(const Query& query, const Key& key, const Value& value) const {
    detail::AttentionWay way = detail::attention_way<Where>(query, key, value, options.is_causal);
    if constexpr (has_bias) way.bias_is_cut = detail::bias_is_cut<typename BiasPart::placed>;
    return way;
  }

  /// A result for these queries, as wide as value, or one number wide.
  template <class Query, class Value>
  static auto result_like(const Query& query, const Value& value, bool wide = true) {
    using Of = typename detail::field_of<T, placed_at<Query>>::type;
    const std::array<Cut, 4> cuts{query.cut(0), query.cut(1), query.cut(2), wide ? value.cut(3) : Cut{{0, 1}}};
    return Of(Of::make_shape(query.mesh(), cuts), Of::Start::unwritten);
  }

  /// Attention of fields with these placements, by the ring of the ranks that cut the sequence.
  template <class Query, class Key, class Value, class Sums>
  auto attended(const Query& query, const Key& key, const Value& value, Sums& sums, detail::InOrder in) const {
    const auto result = result_like(query, value);
    if (sums.empty()) sums = result_like(query, value, false);
    ring(query, key, value)
        .forward(scale(query.extent(3)), detail::head_rows(query).read_only(), detail::head_rows(key).read_only(),
                 detail::head_rows(value).read_only(), terms_beside(query, key, positions_of(query), in),
                 detail::head_rows(result), detail::head_rows(sums));
    return result;
  }
};

namespace detail {

template <class Q, class K, class V>
auto attention_operands(const Q& query, const K& key, const V& value) {
  using Where = placed_of<expression_of<Q>, expression_of<K>, expression_of<V>>;
  return std::tuple(attention_operand<Where>(as_expression(query)), attention_operand<Where>(as_expression(key)),
                    attention_operand<Where>(as_expression(value)));
}
/// Operands each of which lies as it does.
template <class... E>
auto operands_apart(const E&... each) {
  return std::tuple(attention_operand<typename expression_of<E>::placed>(as_expression(each))...);
}
template <class... E>
auto attention_of(const AttentionOptions& options, std::shared_ptr<const PairNumbers> numbers, std::tuple<E...> parts) {
  if (!(options.dropout_p >= 0 && options.dropout_p < 1))
    throw CollectiveError("attention: dropout_p is " + detail::number_text(options.dropout_p) +
                          ": give it a probability of 0 or more and less than 1");
  return Attention<E...>(std::move(parts), options, std::move(numbers));
}

}  // namespace detail

}  // namespace halogen
