// The fields of attention, (samples, heads, points, features): which types they have, and which extents, cuts and
// meshes fit each other.
#pragma once

#include <string>

#include "halogen/attention/head_rows.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen::detail {

/// A field of T placed as Field, but with Code for the mesh dimensions that cut the points.
template <class T, class Field, int Code = 2>
struct points_placed;
template <class T, class TensorType, class M, class... P, int Code>
struct points_placed<T, Sharded<TensorType, M, P...>, Code> {
  using type = Sharded<Tensor<T, dyn, dyn, dyn, dyn>, M,
                       typename placement_of<placement_code<P> == 2 ? Code : placement_code<P>>::type...>;
};
template <class T, class Field>
using rows_like = typename points_placed<T, Field>::type;
/// All points are on each rank.
template <class T, class Field>
using rows_gathered = typename points_placed<T, Field, replicate_code>::type;
/// The ranks that cut the points cut the heads instead.
template <class T, class Field>
using rows_by_heads = typename points_placed<T, Field, 1>::type;

template <class Field>
inline constexpr bool cuts_points = std::ranges::find(Field::placements, 2) != Field::placements.end();

/// In place of a field of bias or mask, if there is none.
struct NoTerm {};
template <class Term>
inline constexpr bool is_term = !std::is_same_v<Term, NoTerm>;

/// The sums of a bias's gradient on each rank: Partial where the bias is whole and the points of keys, or their samples
/// or heads, are cut.
template <class T, class Keys, class Bias>
struct sums_of_bias {
  using type = NoTerm;
};
template <class T, class K, class M, class... P, class B, class... Own>
struct sums_of_bias<T, Sharded<K, M, P...>, Sharded<B, M, Own...>> {
  using type =
      Sharded<Tensor<T, dyn, dyn, dyn, dyn>, M,
              typename placement_of<placement_code<Own> == replicate_code && placement_code<P> != replicate_code
                                        ? partial_code
                                        : placement_code<Own>>::type...>;
};

/// Whether a rank that gets all points of some heads may lack rows of the bias, because they belong to other queries or
/// heads.
template <class Bias>
constexpr bool is_bias_cut() {
  if constexpr (is_term<Bias>)
    return std::ranges::any_of(Bias::placements, [](int code) { return code == 1 || code == 2; });
  return false;
}

/// An unwritten field for the queries' results, as wide as `features`.
template <class T, class Query>
rows_like<T, Query> rows_beside_queries(const Query& query, const Cut& features) {
  using Rows = rows_like<T, Query>;
  return Rows(Rows::make_shape(query.mesh(), {query.cut(0), query.cut(1), query.cut(2), features}),
              Rows::Start::unwritten);
}
/// An unwritten field of T that lies as `field`.
template <class T, class Field>
rows_like<T, Field> rows_unwritten(const Field& field) {
  using Rows = rows_like<T, Field>;
  return Rows(Rows::make_shape(field.mesh(), field.cuts()), Rows::Start::unwritten);
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
