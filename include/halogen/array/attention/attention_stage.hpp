// A call of attention with expressions as operands, and the stage of scaled_dot_product_attention
// (array/attention/attention.hpp) that evaluates it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "halogen/array/attention/attention_operands.hpp"
#include "halogen/attention/pass.hpp"
#include "halogen/core/number_text.hpp"

namespace halogen {
namespace detail {

/// An operand. It is stored once for both passes if it is not a field and has the placements of the result.
template <class Where, class E>
auto attention_operand(const E& e) {
  if constexpr (std::is_same_v<typename E::placed, Where>)
    return held<typename E::value_type>(e);
  else
    return e;
}

/// The field of T of the I-th of some biases; no field if there are fewer.
template <class T, std::size_t I, class... Bias>
auto bias_field(const Bias&... bias) {
  if constexpr (I < sizeof...(Bias)) {
    using Part = std::tuple_element_t<I, std::tuple<Bias...>>;
    return operand_field<T, typename Part::placed>(std::get<I>(std::tie(bias...)));
  } else {
    return NoTerm{};
  }
}

/// Attention of expressions. Bias: none, one, or one and a mask of keys.
template <class Q, class K, class V, class... Bias>
struct AttentionCall {
  static_assert(sizeof...(Bias) <= 2, "attention takes a bias, and a mask of keys beside it");
  /// Whether the ranks share out the keys, and each has all queries (attention/parts.hpp).
  static constexpr bool whole_queries = has_whole_queries<Q, K>;
  using Places = attention_places<whole_queries, Q, K, V>;
  using Where = typename Places::queries;   ///< of queries and result
  using KeysWhere = typename Places::keys;  ///< of keys and values
  /// The type of computations; sums of float are float.
  using T = std::common_type_t<typename Q::value_type, typename K::value_type, typename V::value_type>;
  static_assert(std::is_floating_point_v<T>, "attention takes fields of float, double, bfloat16 or float16");
  using StoredQ = typename stored_of<Q>::type;
  /// The stored type of the operands, if it is the same for all.
  using S = std::conditional_t<std::is_same_v<StoredQ, typename stored_of<K>::type> &&
                                   std::is_same_v<StoredQ, typename stored_of<V>::type>,
                               StoredQ, T>;
  template <class E, class Place>
  using FieldAt = decltype(operand_field<S, Place>(std::declval<const E&>()));
  using Pass = AttentionPass<T, FieldAt<Q, Where>, FieldAt<K, KeysWhere>, FieldAt<V, KeysWhere>,
                             decltype(bias_field<T, 0>(std::declval<const Bias&>()...)),
                             decltype(bias_field<T, 1>(std::declval<const Bias&>()...))>;

  std::tuple<Q, K, V, Bias...> parts;
  AttentionOptions options;
  std::shared_ptr<const PairNumbers> numbers;  ///< null: positions are the places in the sequence

  /// A pass with the operands as they are now.
  Pass pass() const {
    return std::apply(
        [this](const Q& query, const K& key, const V& value, const Bias&... bias) {
          auto of_query = operand_field<S, Where>(query);
          auto of_key = operand_field<S, KeysWhere>(key);
          auto of_value = operand_field<S, KeysWhere>(value);
          auto of_bias = bias_field<T, 0>(bias...);
          return Pass(options, numbers, of_query, of_key, of_value, of_bias, bias_field<T, 1>(bias...));
        },
        parts);
  }
};

}  // namespace detail

/// Made by scaled_dot_product_attention. Computed once per evaluation.
template <class Q, class K, class V, class... Bias>
struct Attention
    : detail::FieldStage<Attention<Q, K, V, Bias...>, typename detail::AttentionCall<Q, K, V, Bias...>::Pass::Result> {
  using Call = detail::AttentionCall<Q, K, V, Bias...>;
  using Pass = typename Call::Pass;
  template <class Operand>
  using SourceOf = typename Call::template FieldAt<
      Operand, std::conditional_t<Call::whole_queries, placed_at<Operand>, typename Call::Where>>;

  static constexpr const char* text = "attention, keys and values go round the ranks that cut the sequence";
  Call call;
  std::shared_ptr<std::optional<Pass>> pass = std::make_shared<std::optional<Pass>>();

  explicit Attention(Call of) : call(std::move(of)) {}

  index_t extent(int d) const {
    return d == 3 ? detail::stored_extent(std::get<2>(call.parts), 3)
                  : detail::stored_extent(std::get<0>(call.parts), d);
  }
  template <class F>
  auto operands(const F& f) const {
    return std::apply(f, call.parts);
  }
  typename Pass::Result compute() const {
    Pass& now = pass->emplace(call.pass());
    now.forward();
    return now.output();
  }
  /// For explain: which way attention goes.
  std::string words() const {
    if constexpr (Call::whole_queries)
      return "attention of queries that all ranks have, each to its own keys: two all_reduces of the queries' rows";
    else if constexpr (!Pass::is_cut)
      return "attention, nothing moves";
    else
      return call.pass().words();
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
AttentionCall<E...> attention_call(const AttentionOptions& options, std::shared_ptr<const PairNumbers> numbers,
                                   std::tuple<E...> parts) {
  if (!(options.dropout_p >= 0 && options.dropout_p < 1))
    throw CollectiveError("attention: dropout_p is " + detail::number_text(options.dropout_p) +
                          ": give it a probability of 0 or more and less than 1");
  return {std::move(parts), options, std::move(numbers)};
}
template <class... E>
Attention<E...> attention_of(const AttentionCall<E...>& call) {
  return Attention<E...>(call);
}

}  // namespace detail

}  // namespace halogen
