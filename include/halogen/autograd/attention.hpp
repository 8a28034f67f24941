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

/// dq stays where it is; dk and dv travel with their keys and values and end at home.
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
  typename Node::Ring::Pulled pulled;
  pulled.saved.query = head_rows(query).read_only();
  pulled.saved.key = head_rows(key).read_only();
  pulled.saved.value = head_rows(value).read_only();
  pulled.saved.gradient = head_rows(owed).read_only();
  pulled.saved.logsumexp = head_rows(*node.logsumexp).read_only();
  pulled.output = head_rows(output).read_only();
  const auto like = [&](const auto& field) {
    return Gradient(Gradient::make_shape(field.mesh(), field.cuts()), Gradient::Start::unwritten);
  };
  Gradient query_gradient, key_gradient, value_gradient;
  if constexpr (pulls_query) {
    query_gradient = like(query);
    pulled.query = head_rows(query_gradient);
  }
  if constexpr (pulls_keys) {
    key_gradient = like(key), value_gradient = like(value);
    pulled.key = head_rows(key_gradient);
    pulled.value = head_rows(value_gradient);
  }
  node.ring(query, key, value).backward(node.scale(query.extent(3)), pulled);
  if constexpr (has_variable<Q>) backward_from(std::get<0>(node.parts), query_gradient, gradients);
  if constexpr (has_variable<K>) backward_from(std::get<1>(node.parts), key_gradient, gradients);
  if constexpr (has_variable<V>) backward_from(std::get<2>(node.parts), value_gradient, gradients);
}

}  // namespace halogen::detail
