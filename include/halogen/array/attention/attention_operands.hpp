// The conditions on attention's operands: at compile time on their placements and static extents, at run time on their
// extents, cuts and meshes.
#pragma once

#include <string>
#include <tuple>

#include "halogen/array/evaluate/moved.hpp"
#include "halogen/array/evaluate/stored.hpp"
#include "halogen/halo/kept_moves.hpp"

namespace halogen::detail {

/// The extent of dimension d of a field or an expression, if its type says it; else dyn.
template <class X>
constexpr int operand_extent(int d) {
  if constexpr (is_sharded<X>)
    return X::tensor_type::extents[static_cast<std::size_t>(d)];
  else
    return static_extent<X>(d);
}
template <class A, class B>
constexpr bool extents_differ(int d) {
  const int a = operand_extent<A>(d), b = operand_extent<B>(d);
  return a != dyn && b != dyn && a != b;
}

template <class X>
constexpr int code_position(int code) {
  if constexpr (is_sharded<X>) {
    for (std::size_t i = 0; i < X::placements.size(); ++i)
      if (X::placements[i] == code) return static_cast<int>(i);
  }
  return -1;
}
template <class Where>
constexpr int embedding_cut() {
  if constexpr (!std::is_same_v<Where, NotPlaced>)
    for (std::size_t i = 0; i < Where::codes.size(); ++i)
      if (Where::codes[i] == 3) return static_cast<int>(i);
  return -1;
}
template <class X>
constexpr int rank_of_operand() {
  if constexpr (is_sharded<X>)
    return X::rank;
  else
    return placed_at<X>::rank;
}

/// Why an operand, or a pair of operands, does not fit attention; void if it fits.
template <class X>
constexpr auto operand_misfit() {
  if constexpr (constexpr int i = code_position<X>(partial_code); i >= 0)
    return why::input_is_partial<i>{};
  else if constexpr (rank_of_operand<X>() != 4)
    return why::rank_differs<4, rank_of_operand<X>()>{};
  else if constexpr (constexpr int cut = embedding_cut<placed_at<X>>(); cut >= 0)
    return why::embedding_is_cut<cut>{};
}
template <class A, class B, int... Alike>
constexpr auto pair_misfit() {
  if constexpr (!Joinable<A, B>) {
    return WhyNotJoined<A, B>{};
  } else {
    constexpr int d = [] {
      for (const int one : {Alike...})
        if (extents_differ<A, B>(one)) return one;
      return -1;
    }();
    if constexpr (d >= 0) return why::attention_extents_differ<d, operand_extent<A>(d), operand_extent<B>(d)>{};
  }
}
/// The same for heads. The query's may be a multiple (AttentionOptions::enable_gqa).
template <class A, class B>
constexpr auto head_misfit() {
  constexpr int a = operand_extent<A>(1), b = operand_extent<B>(1);
  if constexpr (a != dyn && b != dyn)
    if constexpr (b == 0 ? a != 0 : a % b != 0) return why::attention_extents_differ<1, a, b>{};
}
template <class Q, class K, class V>
constexpr auto attention_misfit() {
  if constexpr (!std::is_void_v<decltype(operand_misfit<Q>())>)
    return operand_misfit<Q>();
  else if constexpr (!std::is_void_v<decltype(operand_misfit<K>())>)
    return operand_misfit<K>();
  else if constexpr (!std::is_void_v<decltype(operand_misfit<V>())>)
    return operand_misfit<V>();
  else if constexpr (!std::is_void_v<decltype(pair_misfit<Q, K, 0, 3>())>)
    return pair_misfit<Q, K, 0, 3>();
  else if constexpr (!std::is_void_v<decltype(head_misfit<Q, K>())>)
    return head_misfit<Q, K>();
  else if constexpr (!std::is_void_v<decltype(pair_misfit<K, V, 0, 1, 2>())>)
    return pair_misfit<K, V, 0, 1, 2>();
}
template <class Q, class K, class V>
using WhyNoAttention = decltype(attention_misfit<Q, K, V>());
template <class Q, class K, class V>
concept Attends = FieldOperand<Q> && FieldOperand<K> && FieldOperand<V> && std::is_void_v<WhyNoAttention<Q, K, V>>;

/// The type of stored values for a field or a stored node, of computed values for another expression.
template <class E>
struct stored_of {
  using type = typename E::value_type;
};
template <class E>
  requires requires { typename std::decay_t<decltype(std::declval<const E&>().field)>::tensor_type; }
struct stored_of<E> {  // a leaf
  using type = typename std::decay_t<decltype(std::declval<const E&>().field)>::value_type;
};
template <class E>
  requires requires { std::declval<const E&>().inner.record; }
struct stored_of<E> {
  using type = typename std::decay_t<decltype(std::declval<const E&>().inner)>::Result::value_type;
};
template <class E>
  requires requires { typename std::decay_t<decltype(std::declval<const E&>().inner.field)>::value_type; }
struct stored_of<E> {
  using type = typename std::decay_t<decltype(std::declval<const E&>().inner.field)>::value_type;
};

/// The operand's own field, if it is a field with these stored values and placements; else one that is computed now.
template <class S, class Where, class E>
auto operand_field(const E& e) {
  using Computed = typename field_of<S, Where>::type;
  if constexpr (requires { e.inner.field; }) {
    using Field = std::decay_t<decltype(e.inner.field)>;
    if constexpr (std::is_same_v<typename Field::value_type, S> && Field::placements == Computed::placements)
      return e.inner.field;
    else
      return computed<Computed>(shape_of<Computed>(e), e);
  } else {
    return materialised<Computed>(e);
  }
}

/// Whether the number of query heads is a multiple of the number of key heads, and they are on the ranks of their keys.
template <class Query, class Key>
bool are_groups_of(const Query& query, const Key& key) {
  const index_t queries = query.extent(1), keys = key.extent(1);
  if (keys == 0 || queries % keys != 0) return queries == keys;
  for (int i = 0; i < key.cut(1).parts(); ++i)
    if (query.cut(1).piece(i).begin != queries / keys * key.cut(1).piece(i).begin) return false;
  return true;
}

/// Throws CollectiveError if extents, cuts or meshes that are known only at run time do not fit.
template <class Query, class Key, class Value>
void check_attention(const Query& query, const Key& key, const Value& value, bool enable_gqa) {
  const auto points = [](const auto& a, const auto& b, int d, const char* names) {
    if (a.extent(d) != b.extent(d))
      throw CollectiveError("attention: " + std::string(names) + " have " + std::to_string(a.extent(d)) + " and " +
                            std::to_string(b.extent(d)) + " points in dimension " + std::to_string(d) +
                            ": give them the same extents");
    if (a.cut(d) != b.cut(d))
      throw CollectiveError("attention: " + std::string(names) + " are cut differently in dimension " +
                            std::to_string(d) + " of " + std::to_string(a.extent(d)) +
                            " points: cut_as(one, the other) gives them the same cuts");
  };
  if (!(query.mesh() == key.mesh()) || !(key.mesh() == value.mesh()))
    throw CollectiveError("attention: query, key and value lie on different meshes: distribute them on one");
  for (const int d : {0, 3}) points(query, key, d, "query and key");
  if (!enable_gqa) points(query, key, 1, "query and key");
  if (enable_gqa && !are_groups_of(query, key))
    throw CollectiveError("attention: query and key have " + std::to_string(query.extent(1)) + " and " +
                          std::to_string(key.extent(1)) +
                          " heads: with enable_gqa those of the query are a multiple, cut where groups end");
  for (const int d : {0, 1, 2}) points(key, value, d, "key and value");
}

/// The shapes for which an attention is prepared.
struct AttentionAsked {
  FieldPlace<4> query, key, value;
  bool is_causal;
};
struct AttentionKey {
  FieldPlaceKey<4> query, key, value;
  bool is_causal;

  explicit AttentionKey(const AttentionAsked& asked)
      : query(asked.query), key(asked.key), value(asked.value), is_causal(asked.is_causal) {}
  bool operator==(const AttentionAsked& asked) const {
    return query == asked.query && key == asked.key && value == asked.value && is_causal == asked.is_causal;
  }
};

}  // namespace halogen::detail
