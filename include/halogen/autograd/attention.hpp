// The gradient of attention: from its result and logsumexp, the logits computed again tile by tile.
#pragma once

#include "halogen/array/attention.hpp"
#include "halogen/array/explain_expression.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

template <class Q, class K, class V>
inline constexpr bool has_variable<Attention<Q, K, V>> = has_variable<Q> || has_variable<K> || has_variable<V>;
template <class Q, class K, class V>
inline constexpr const char* stage_text<Attention<Q, K, V>> =
    "attention, keys and values go round the ranks that cut the sequence";

template <class Q, class K, class V, class Operand>
inline constexpr bool operand_stands<Attention<Q, K, V>, Operand> = [] {
  using Field = decltype(operand_field<typename Attention<Q, K, V>::S, typename Attention<Q, K, V>::Where>(
      std::declval<const Operand&>()));
  if constexpr (requires(const Operand& operand) { operand.inner.field; })
    return std::is_same_v<Field, std::decay_t<decltype(std::declval<const Operand&>().inner.field)>>;
  else
    return stands_as<Field, Operand>;
}();

/// The gradients of query, key and value, which lie as they do; empty ones where nobody asks.
template <bool PullsQuery, bool PullsKeys, class Node, class Query, class Key, class Value, class Output, class Sums>
auto attention_gradients(const Node& node, const Query& query, const Key& key, const Value& value, const Output& output,
                         const Output& owed, const Sums& logsumexp) {
  typename Node::Ring::Pulled pulled;
  pulled.saved.query = head_rows(query).read_only();
  pulled.saved.key = head_rows(key).read_only();
  pulled.saved.value = head_rows(value).read_only();
  pulled.saved.gradient = head_rows(owed).read_only();
  pulled.saved.logsumexp = head_rows(logsumexp).read_only();
  pulled.output = head_rows(output).read_only();
  const auto like = [&](const auto& field) {
    return Output(Output::make_shape(field.mesh(), field.cuts()), Output::Start::unwritten);
  };
  std::array<Output, 3> gradients;
  if constexpr (PullsQuery) {
    gradients[0] = like(query);
    pulled.query = head_rows(gradients[0]);
  }
  if constexpr (PullsKeys) {
    gradients[1] = like(key), gradients[2] = like(value);
    pulled.key = head_rows(gradients[1]);
    pulled.value = head_rows(gradients[2]);
  }
  node.ring(query, key, value).backward(node.scale(query.extent(3)), pulled);
  return gradients;
}

/// By the ring dq stays where it is; dk and dv travel with their keys and values and end at home. By heads all three
/// are found where forward has been, and brought back.
template <class Q, class K, class V, class C, class All>
void pull(const Attention<Q, K, V>& node, const C& cotangent, All& gradients) {
  using Node = Attention<Q, K, V>;
  using Gradient = typename Node::Result;
  constexpr bool pulls_query = has_variable<Q>, pulls_keys = has_variable<K> || has_variable<V>;
  const auto output = node.field();
  const auto owed = [&] {  // in the type that is computed in
    if constexpr (std::is_same_v<typename C::value_type, typename Node::T>)
      return cotangent;
    else
      return computed<Gradient>(Gradient::make_shape(cotangent.mesh(), cotangent.cuts()), leaf(cotangent));
  }();
  const auto [query, key, value] = node.fields();
  std::array<Gradient, 3> found;
  if (!node.by_heads->has_value())
    found = attention_gradients<pulls_query, pulls_keys>(node, query, key, value, output, owed, *node.logsumexp);
  if constexpr (cuts_sequence<typename Node::Where>)
    if (node.by_heads->has_value()) {
      const auto& kept = **node.by_heads;
      using Moved = std::decay_t<decltype(kept.output)>;
      const auto there = attention_gradients<pulls_query, pulls_keys>(
          node, kept.query, kept.key, kept.value, kept.output, redistribute<Moved>(owed), kept.logsumexp);
      const auto back = [&](const Moved& from, const auto& field) {
        return redistribute_to(from,
                               Gradient(Gradient::make_shape(field.mesh(), field.cuts()), Gradient::Start::unwritten));
      };
      if constexpr (pulls_query) found[0] = back(there[0], query);
      if constexpr (has_variable<K>) found[1] = back(there[1], key);
      if constexpr (has_variable<V>) found[2] = back(there[2], value);
    }
  if constexpr (has_variable<Q>) backward_from(std::get<0>(node.parts), found[0], gradients);
  if constexpr (has_variable<K>) backward_from(std::get<1>(node.parts), found[1], gradients);
  if constexpr (has_variable<V>) backward_from(std::get<2>(node.parts), found[2], gradients);
}

}  // namespace halogen::detail
