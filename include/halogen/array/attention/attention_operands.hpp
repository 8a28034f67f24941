// The conditions on attention's operands that compilers check: their placements and static extents. And operands as
// fields.
#pragma once

#include <limits>
#include <tuple>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/evaluate/stored.hpp"

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

/// Whether queries are whole on the ranks that cut the keys: vectors of a network, which lie wherever their partners
/// do. A field that is Replicate is cut as the keys are.
template <class Q, class K>
inline constexpr bool are_whole_beside = false;
template <class M, int... Q, int... K>
inline constexpr bool are_whole_beside<Placed<M, 4, Q...>, Placed<M, 4, K...>> =
    ((K == 2) || ...) && ((K == 2 ? Q == any_code : Q == K) && ...);
template <class Q, class K>
inline constexpr bool has_whole_queries = are_whole_beside<typename Q::placed, typename K::placed>;

/// Where the result lies, and where keys and values do.
template <bool WholeQueries, class Q, class K, class V>
struct attention_places {
  using queries = placed_of<Q, K, V>;
  using keys = queries;
};
template <class Q, class K, class V>
struct attention_places<true, Q, K, V> {
  using keys = placed_of<K, V>;
  using queries = typename placed_instead<2, replicate_code, keys>::type;
};

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

/// Why a bias does not fit operands with the placements Where; void if it fits. Along a mesh dimension it must have
/// their placement or be Replicate.
template <class Where, class Own>
constexpr auto bias_place_misfit() {
  if constexpr (Own::rank != 4) {
    return why::rank_differs<4, Own::rank>{};
  } else if constexpr (Own::codes.size() != Where::codes.size()) {
    return why::operands_differ_in_rank<static_cast<int>(Own::codes.size()), static_cast<int>(Where::codes.size())>{};
  } else {
    constexpr int first = [] {
      for (std::size_t i = 0; i < Own::codes.size(); ++i)
        if (Own::codes[i] != replicate_code && Own::codes[i] != Where::codes[i]) return static_cast<int>(i);
      return -1;
    }();
    if constexpr (first >= 0)
      return why::redistribute_operand<first, typename placement_of<Own::codes[first]>::type, Replicate>{};
  }
}
template <class Where, class Bias>
constexpr auto bias_misfit() {
  if constexpr (FieldOperand<Bias>)
    return bias_place_misfit<Where, placed_at<Bias>>();
  else
    return why::rank_differs<4, 0>{};
}

template <class Where, class Mask>
using WhyNoMask = decltype(bias_misfit<Where, Mask>());
template <class Mask, class Q, class K, class V>
concept Masks = std::is_void_v<WhyNoMask<placed_of<expression_of<Q>, expression_of<K>, expression_of<V>>, Mask>>;

template <class... E>
using computed_of = std::common_type_t<typename expression_of<E>::value_type...>;

/// A mask as a bias of T.
template <class T, class Mask>
auto mask_operand(const Mask& mask) {
  if constexpr (std::is_same_v<typename expression_of<Mask>::value_type, bool>)
    return held<T>(where(mask, T(0), -std::numeric_limits<T>::infinity()));
  else
    return held<T>(as_expression(mask));
}

}  // namespace halogen::detail
