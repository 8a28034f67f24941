// The gradient of attention: from its result and logsumexp, the logits computed again tile by tile.
#pragma once

#include "halogen/array/attention/attention.hpp"
#include "halogen/autograd/contraction.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

/// A field of T that lies as another.
template <class T, class Field>
using gradient_beside = typename field_of<T, placed_at<Field>>::type;

/// The gradients of query, key and value, which lie as they do; empty ones where nobody asks.
template <bool PullsQuery, bool PullsKeys, class Node, class Query, class Key, class Value, class Output, class Sums,
          class OfBias>
auto attention_gradients(const Node& node, const Query& query, const Key& key, const Value& value, const Output& output,
                         const Output& owed, const Sums& logsumexp, const OfBias& of_bias, InOrder in) {
  typename Node::Ring::Pulled pulled;
  pulled.saved.query = head_rows(query).read_only();
  pulled.saved.key = head_rows(key).read_only();
  pulled.saved.value = head_rows(value).read_only();
  pulled.bias = of_bias(query, in);
  pulled.apart = node.options.parallel == ContextParallel::deterministic;
  pulled.saved.gradient = head_rows(owed).read_only();
  pulled.output = head_rows(output).read_only();
  const auto start = [](auto& gradient, const auto& field) {
    using Gradient = std::decay_t<decltype(gradient)>;
    gradient = Gradient(Gradient::make_shape(field.mesh(), field.cuts()), Gradient::Start::unwritten);
    return head_rows(gradient);
  };
  using T = typename Node::T;
  std::tuple<gradient_beside<T, Query>, gradient_beside<T, Key>, gradient_beside<T, Value>> gradients;
  if constexpr (PullsQuery) pulled.query = start(std::get<0>(gradients), query);
  if constexpr (PullsKeys) {
    pulled.key = start(std::get<1>(gradients), key);
    pulled.value = start(std::get<2>(gradients), value);
  }
  const double scale = node.scale(query.extent(3));
  if (node.by_zigzag->has_value()) {
    auto& zigzag = node.zigzag(query, key, value);
    pulled.saved.terms = node.terms_beside(query, key, zigzag.query_positions(), in);
    zigzag.backward(scale, **node.by_zigzag, pulled);
  } else {
    pulled.saved.terms = node.terms_beside(query, key, node.positions_of(query), in);
    pulled.saved.logsumexp = head_rows(logsumexp).read_only();
    node.ring(query, key, value).backward(scale, pulled);
  }
  return gradients;
}

/// What is collected for a bias that a gradient is asked of: sums of this rank's pairs.
template <bool Pulls, class Node>
struct PairBiasGradient {
  PairBiasGradient() = default;
  explicit PairBiasGradient(const Node&) {}
  template <class Query>
  kernels::PairBias<typename Node::T> operator()(const Query&, InOrder) const {
    return {};
  }
};
template <class Node>
struct PairBiasGradient<true, Node> {
  using T = typename Node::T;
  using Own = typename FieldLeaf<typename Node::BiasField>::placed;
  using Sums = typename field_of<T, typename bias_gradient_place<typename Node::KeysWhere, Own>::type>::type;
  Sums sums;
  const PairNumbers* numbers;

  explicit PairBiasGradient(const Node& node)
      : sums(Sums::make_shape(node.bias->mesh(), node.bias->cuts()), Sums::Start::zeros), numbers(node.numbers.get()) {}
  template <class Query>
  kernels::PairBias<T> operator()(const Query& query, InOrder in) const {
    return pair_bias<T>(sums, query, numbers, in);
  }
  template <class All>
  void pass(const Node& node, All& gradients) const {
    pull_operand(std::get<3>(node.parts), sums, gradients);
  }
};

/// Zeros to which gradients of the node's bias are added, if a gradient is asked of it.
template <class Q, class K, class V, class... Bias>
auto pair_bias_gradient(const Attention<Q, K, V, Bias...>& node) {
  static_cast<void>(node.field());  // which evaluates the bias
  return PairBiasGradient<(has_variable<Bias> || ...), Attention<Q, K, V, Bias...>>(node);
}
template <bool Pulls, class Node, class All>
void pass_bias(const PairBiasGradient<Pulls, Node>& of_bias, const Node& node, All& gradients) {
  if constexpr (Pulls) of_bias.pass(node, gradients);
}

/// Of keys and values that every rank gathers: dq as forward has seen them; dk, dv and the bias's gradient of the own
/// keys by all queries, so that a bias of keys is summed by one rank.
template <bool PullsQuery, bool PullsKeys, bool PullsBias, class Node, class Query, class Key, class Value,
          class Output>
auto gathered_gradients(const Node& node, const Query& query, const Key& key, const Value& value, const Output& output,
                        const Output& owed, const PairBiasGradient<PullsBias, Node>& of_bias) {
  using Where = typename Node::Where;
  using Operand = field_gathered<typename Node::S, Where>;
  using Result = field_gathered<typename Node::T, Where>;
  std::tuple<Output, Output, Output> found;
  if constexpr (PullsQuery) {
    const auto keys = node.keys_in_order(redistribute<Operand>(key));
    const auto values = node.keys_in_order(redistribute<Operand>(value));
    std::get<0>(found) =
        std::get<0>(attention_gradients<true, false>(node, query, keys, values, output, owed, *node.logsumexp,
                                                     PairBiasGradient<false, Node>{}, InOrder{.keys = true}));
  }
  if constexpr (PullsKeys || PullsBias) {
    const auto whole = [&](const auto& of) { return node.queries_in_order(redistribute<Result>(of)); };
    const auto all = node.queries_in_order(redistribute<Operand>(query));
    const auto of_keys = attention_gradients<false, PullsKeys>(
        node, all, key, value, whole(output), whole(owed), whole(*node.logsumexp), of_bias, InOrder{.queries = true});
    std::get<1>(found) = std::get<1>(of_keys), std::get<2>(found) = std::get<2>(of_keys);
  }
  return found;
}

/// The gradients of queries, keys and values that the forward pass has moved to ranks with whole heads. They are
/// computed there and moved back.
template <class Q, class K, class V, class... Bias, class Query, class Key, class Value, class Owed, class OfBias>
auto moved_gradients(const Attention<Q, K, V, Bias...>& node, const Query& query, const Key& key, const Value& value,
                     const Owed& owed, const OfBias& of_bias) {
  using Node = Attention<Q, K, V, Bias...>;
  using Gradient = typename Node::Result;
  const auto& kept = **node.by_heads;
  using Moved = std::decay_t<decltype(kept.output)>;
  constexpr bool pulls_query = has_variable<Q>, pulls_keys = has_variable<K> || has_variable<V>;
  const auto there = attention_gradients<pulls_query, pulls_keys>(node, kept.query, kept.key, kept.value, kept.output,
                                                                  node.queries_in_order(redistribute<Moved>(owed)),
                                                                  kept.logsumexp, of_bias, Node::all_in_order);
  const auto back = [&](const Moved& from, const auto& field) {
    return redistribute_to(from,
                           Gradient(Gradient::make_shape(field.mesh(), field.cuts()), Gradient::Start::unwritten));
  };
  std::tuple<Gradient, Gradient, Gradient> found;
  if constexpr (has_variable<Q>) std::get<0>(found) = back(node.queries_as_before(std::get<0>(there)), query);
  if constexpr (has_variable<K>) std::get<1>(found) = back(node.keys_as_before(std::get<1>(there)), key);
  if constexpr (has_variable<V>) std::get<2>(found) = back(node.keys_as_before(std::get<2>(there)), value);
  return found;
}

/// The gradients of query, key and value, as fields of computed values that lie as the operands do; empty ones where
/// nobody asks. By the ring dq stays where it is; dk and dv travel with their keys and values and end at home. By heads
/// all three are found where forward has been, and brought back.
template <class Q, class K, class V, class... Bias, class Owed, class OfBias>
auto operand_gradients(const Attention<Q, K, V, Bias...>& node, const Owed& owed, const OfBias& of_bias) {
  using Node = Attention<Q, K, V, Bias...>;
  constexpr bool pulls_query = has_variable<Q>, pulls_keys = has_variable<K> || has_variable<V>;
  const auto output = node.field();
  const auto [query, key, value] = node.fields();
  using OfKeys = typename field_of<typename Node::T, typename Node::KeysWhere>::type;
  std::tuple<typename Node::Result, OfKeys, OfKeys> found;
  auto& [dq, dk, dv] = found;
  bool gathered = false;
  if constexpr (cuts_sequence<typename Node::Where>)
    gathered = node.chosen_way(query, key, value) == ContextParallel::deterministic;
  if constexpr (Node::whole_queries) {
    found = attention_gradients<pulls_query, pulls_keys>(node, query, key, value, output, owed, *node.logsumexp,
                                                         of_bias, InOrder{});
    if constexpr (pulls_query)
      node.joined(query, key, value)
          .add(execution_space{}, head_rows(dq), static_cast<int>(query.extent(3)), key.local_extent(2) > 0);
  } else if constexpr (!cuts_sequence<typename Node::Where>) {
    found =
        attention_gradients<pulls_query, pulls_keys>(node, query, node.keys_in_order(key), node.keys_in_order(value),
                                                     output, owed, *node.logsumexp, of_bias, InOrder{.keys = true});
    dk = node.keys_as_before(dk), dv = node.keys_as_before(dv);
  } else if (!gathered && !node.by_heads->has_value())
    found = attention_gradients<pulls_query, pulls_keys>(node, query, key, value, output, owed, *node.logsumexp,
                                                         of_bias, InOrder{});
  if constexpr (cuts_sequence<typename Node::Where>) {
    if (gathered) found = gathered_gradients<pulls_query, pulls_keys>(node, query, key, value, output, owed, of_bias);
    if (node.by_heads->has_value()) found = moved_gradients(node, query, key, value, owed, of_bias);
  }
  return found;
}

template <class Q, class K, class V, class... Bias, class C, class All>
void pull(const Attention<Q, K, V, Bias...>& node, const C& cotangent, All& gradients) {
  using Node = Attention<Q, K, V, Bias...>;
  using Gradient = typename Node::Result;
  const auto owed = [&] {  // in the type that is computed in
    if constexpr (std::is_same_v<typename C::value_type, typename Node::T>)
      return cotangent;
    else
      return computed<Gradient>(Gradient::make_shape(cotangent.mesh(), cotangent.cuts()), leaf(cotangent));
  }();
  const auto of_bias = pair_bias_gradient(node);
  const auto [dq, dk, dv] = operand_gradients(node, owed, of_bias);
  if constexpr (has_variable<Q>) backward_from(std::get<0>(node.parts), dq, gradients);
  if constexpr (has_variable<K>) backward_from(std::get<1>(node.parts), dk, gradients);
  if constexpr (has_variable<V>) backward_from(std::get<2>(node.parts), dv, gradients);
  pass_bias(of_bias, node, gradients);
}

}  // namespace halogen::detail
