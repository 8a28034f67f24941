// scaled_dot_product_attention(query, key, value): softmax(scale q k^T) v of each sample and head.
//
//   query (N, H, L, E), key (N, H, S, E), value (N, H, S, V) -> (N, H, L, V), as PyTorch's; with enable_gqa key and
//   value may have H / G heads, each seen by G neighbouring heads of the query
//
//   all three placed as     result      moves on that mesh dimension
//   Shard<0>, Shard<1>      the same    nothing: samples and heads are whole
//   Shard<2>                Shard<2>    keys and values travel round a ring, ranks - 1 messages a rank; or all goes by
//                                       heads, two all-to-alls (array/attention_by_heads.hpp)
//   Replicate               Replicate   nothing
//
// Several mesh dimensions may cut the sequence; their ranks are one ring. Refused: Shard<3>, Partial, other placements
// of one operand. Kept for backward: the result and one number a query and head, log(sum of exp(logits)).
// Source: Milakov and Gimelshein 2018 (online softmax), Dao et al. 2022 (tiles, backward), Liu et al. 2023 (ring).
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "halogen/array/attention_by_heads.hpp"
#include "halogen/array/attention_ring.hpp"
#include "halogen/array/moved.hpp"
#include "halogen/array/stored.hpp"
#include "halogen/halo/kept_moves.hpp"

namespace halogen {

struct AttentionOptions {
  bool is_causal = false;                      ///< query i sees keys 0..i, whatever the lengths
  std::optional<double> scale = std::nullopt;  ///< of the logits; 1 / sqrt(E) by default
  bool enable_gqa = false;  ///< query heads are a multiple of key heads: head h sees the keys of head h / multiple
  ContextParallel parallel = ContextParallel::automatic;  ///< where the sequence is cut
};

namespace detail {

/// The field that an operand is, as its static extents and stored values have it; NoField for other expressions.
struct NoField {};
template <class X>
struct field_operand {
  using type = NoField;
};
template <class TensorType, class MeshType, class... P>
struct field_operand<Sharded<TensorType, MeshType, P...>> {
  using type = Sharded<TensorType, MeshType, P...>;
};
template <class X>
  requires requires { typename X::Field; }
struct field_operand<X> {
  using type = typename X::Field;
};

template <class Field>
constexpr int static_extent(int d) {
  if constexpr (is_sharded<Field>)
    return Field::tensor_type::extents[static_cast<std::size_t>(d)];
  else
    return dyn;
}
template <class A, class B>
constexpr bool extents_differ(int d) {
  const int a = static_extent<typename field_operand<A>::type>(d),
            b = static_extent<typename field_operand<B>::type>(d);
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

/// Why an operand by itself, or a pair, cannot stand in an attention; void where it can.
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
    if constexpr (d >= 0)
      return why::attention_extents_differ<d, static_extent<typename field_operand<A>::type>(d),
                                           static_extent<typename field_operand<B>::type>(d)>{};
  }
}
/// Of heads, which may be a multiple (AttentionOptions::enable_gqa).
template <class A, class B>
constexpr auto head_misfit() {
  constexpr int a = static_extent<typename field_operand<A>::type>(1),
                b = static_extent<typename field_operand<B>::type>(1);
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

/// Stored values of a field operand, computed values of another expression.
template <class E>
struct stored_of {
  using type = typename E::value_type;
};
template <class E>
  requires requires { typename std::decay_t<decltype(std::declval<const E&>().inner.field)>::value_type; }
struct stored_of<E> {
  using type = typename std::decay_t<decltype(std::declval<const E&>().inner.field)>::value_type;
};

/// The operand's own field where it is one of these stored values and placements, else one that is computed now.
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

/// What an attention is prepared for.
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

/// Whether the query's heads are a multiple of the key's, and lie on the ranks of their keys.
template <class Query, class Key>
bool are_groups_of(const Query& query, const Key& key) {
  const index_t queries = query.extent(1), keys = key.extent(1);
  if (keys == 0 || queries % keys != 0) return queries == keys;
  for (int i = 0; i < key.cut(1).parts(); ++i)
    if (query.cut(1).piece(i).begin != queries / keys * key.cut(1).piece(i).begin) return false;
  return true;
}

/// Throws CollectiveError where what only the run knows does not fit together.
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
                            " points: redistribute_to(one, the other)");
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

/// An operand, stored once for both passes where it is no field and is placed as the result.
template <class Where, class E>
auto attention_operand(const E& e) {
  if constexpr (std::is_same_v<typename E::placed, Where>)
    return held<typename E::value_type>(e);
  else
    return e;
}
template <class Where, class E>
using attention_operand_t = decltype(attention_operand<Where>(std::declval<const E&>()));

}  // namespace detail

/// Made by scaled_dot_product_attention. Computed once per evaluation.
template <class Q, class K, class V>
struct Attention
    : detail::FieldStage<Attention<Q, K, V>,
                         typename detail::field_of<
                             std::common_type_t<typename Q::value_type, typename K::value_type, typename V::value_type>,
                             detail::placed_of<Q, K, V>>::type> {
  using Where = detail::placed_of<Q, K, V>;
  /// Computed in; sums of float are float.
  using T = std::common_type_t<typename Q::value_type, typename K::value_type, typename V::value_type>;
  static_assert(std::is_floating_point_v<T>, "attention takes fields of float, double, bfloat16 or float16");
  using StoredQ = typename detail::stored_of<Q>::type;
  /// Stored as the operands are, where they are alike.
  using S = std::conditional_t<std::is_same_v<StoredQ, typename detail::stored_of<K>::type> &&
                                   std::is_same_v<StoredQ, typename detail::stored_of<V>::type>,
                               StoredQ, T>;
  using Result = typename detail::field_of<T, Where>::type;
  using Logsumexp = typename detail::field_of<T, Where>::type;  ///< (N, H, L, 1)
  using Ring = detail::AttentionRing<T, S>;
  using ByHeads = detail::AttentionByHeads<T, S, Where>;

  std::tuple<Q, K, V> parts;
  AttentionOptions options;
  std::shared_ptr<Logsumexp> logsumexp = std::make_shared<Logsumexp>();
  std::shared_ptr<std::optional<ByHeads>> by_heads = std::make_shared<std::optional<ByHeads>>();  ///< where it went so

  Attention(Q q, K k, V v, AttentionOptions o) : parts(std::move(q), std::move(k), std::move(v)), options(o) {}

  index_t extent(int d) const {
    return d == 3 ? detail::stored_extent(std::get<2>(parts), 3) : detail::stored_extent(std::get<0>(parts), d);
  }
  Cut grid(int d) const { return this->field().cut(d); }

  /// query, key and value as fields.
  auto fields() const {
    return std::apply([](const auto&... e) { return std::tuple(detail::operand_field<S, Where>(e)...); }, parts);
  }

  /// The prepared ring of such fields; local, since who sends what follows from the shapes.
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
          schedule.is_causal = options.is_causal;
          kernels::AttentionShape shape;
          shape.samples = query.local_extent(0), shape.heads = key.local_extent(1);
          shape.queries = query.local_extent(2), shape.first_query = query.offset(2);
          shape.embedding = static_cast<int>(query.extent(3));
          shape.value_embedding = static_cast<int>(value.extent(3));
          shape.is_causal = options.is_causal;
          return std::make_unique<Ring>(query.mesh().communicator(pieces.mask({2})), schedule, shape,
                                        key.extent(1) == 0 ? 1 : query.extent(1) / key.extent(1));
        });
  }
  double scale(index_t embedding) const {
    return options.scale.value_or(1 / std::sqrt(static_cast<double>(embedding)));
  }

  Result compute() const {
    const auto [query, key, value] = fields();
    detail::check_attention(query, key, value, options.enable_gqa);
    query.shape()->agree(query.decomposition().mask({2}));  // keys and values are cut alike
    key.shape()->agree(key.decomposition().mask({2}));
    by_heads->reset();
    if constexpr (detail::cuts_sequence<Where>)
      if (detail::attention_way<Where>(query, key, value, options.is_causal).goes_by_heads(options.parallel)) {
        using Moved = detail::field_by_heads<S, Where>;
        ByHeads& kept = by_heads->emplace(
            ByHeads{redistribute<Moved>(query), redistribute<Moved>(key), redistribute<Moved>(value), {}, {}});
        kept.output = attended(kept.query, kept.key, kept.value, kept.logsumexp);
        return redistribute_to(kept.output, result_like(query, value));
      }
    return attended(query, key, value, *logsumexp);
  }

  /// For explain: which way it goes.
  std::string words() const {
    if constexpr (!detail::cuts_sequence<Where>) {
      return "attention, nothing moves";
    } else {
      const auto [query, key, value] = fields();
      const detail::AttentionWay way = detail::attention_way<Where>(query, key, value, options.is_causal);
      const index_t of_value = query.extent(0) * static_cast<index_t>(sizeof(S));
      const auto bytes = [way, of_value](index_t values) {  // of all ranks together
        return std::to_string(values * (way.ranks - 1) / way.ranks * of_value);
      };
      const std::string ring = bytes(way.by_ring()), heads = bytes(way.by_heads());
      if (way.goes_by_heads(options.parallel))
        return "attention, by heads: all-to-alls of queries, keys, values and the result (" + heads +
               " bytes; round the ranks " + ring + ")";
      return "attention, keys and values go round the ranks that cut the sequence (" + ring + " bytes; by heads" +
             (way.divides() ? " " + heads : ": the ranks do not divide them") + ")";
    }
  }

 private:
  /// A result for such queries, as wide as value, or one number wide.
  template <class Query, class Value>
  static auto result_like(const Query& query, const Value& value, bool wide = true) {
    using Of = typename detail::field_of<T, placed_at<Query>>::type;
    const std::array<Cut, 4> cuts{query.cut(0), query.cut(1), query.cut(2), wide ? value.cut(3) : Cut{{0, 1}}};
    return Of(Of::make_shape(query.mesh(), cuts), Of::Start::unwritten);
  }

  /// Of fields that lie so: by the ring of the ranks that cut their sequence.
  template <class Query, class Key, class Value, class Sums>
  auto attended(const Query& query, const Key& key, const Value& value, Sums& sums) const {
    const auto result = result_like(query, value);
    if (sums.empty()) sums = result_like(query, value, false);
    ring(query, key, value)
        .forward(scale(query.extent(3)), detail::head_rows(query).read_only(), detail::head_rows(key).read_only(),
                 detail::head_rows(value).read_only(), detail::head_rows(result), detail::head_rows(sums));
    return result;
  }
};

/// softmax(scale query key^T) value of each sample and head, causal where options say so; in the value type (float for
/// two-byte ones). Collective where the sequence is cut. Placements as the table above.
///
///   Field y = hg::scaled_dot_product_attention(q, k, v, {.is_causal = true});
template <FieldOperand Q, FieldOperand K, FieldOperand V>
  requires detail::Attends<Q, K, V>
auto scaled_dot_product_attention(const Q& query, const K& key, const V& value, const AttentionOptions& options = {}) {
  using Where = detail::placed_of<expression_of<Q>, expression_of<K>, expression_of<V>>;
  using detail::attention_operand;
  return Attention<detail::attention_operand_t<Where, expression_of<Q>>,
                   detail::attention_operand_t<Where, expression_of<K>>,
                   detail::attention_operand_t<Where, expression_of<V>>>(
      attention_operand<Where>(as_expression(query)), attention_operand<Where>(as_expression(key)),
      attention_operand<Where>(as_expression(value)), options);
}
template <FieldOperand Q, FieldOperand K, FieldOperand V, class Why = detail::WhyNoAttention<Q, K, V>>
  requires(!detail::Attends<Q, K, V>)
void scaled_dot_product_attention(const Q& query, const K& key, const V& value,
                                  const AttentionOptions& options = {}) = delete;

}  // namespace halogen
