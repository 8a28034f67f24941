// Attention of a sequence that is cut, by heads: one all-to-all gives each rank all points of some heads, it attends
// alone, and another all-to-all brings the result back (Jacobs et al. 2023, DeepSpeed Ulysses). When that sends less
// than the ring, and what is kept for backward.
#pragma once

#include <utility>

#include "halogen/array/moved.hpp"

namespace halogen {

/// How attention goes where mesh dimensions cut the sequence.
enum class ContextParallel {
  automatic,  ///< by heads where they divide and it sends fewer bytes forward, else the ring
  ring,       ///< keys and values travel round the ranks while kernels work
  all_to_all  ///< by heads; a CollectiveError where they do not divide, or the bias is cut along queries or heads
};

namespace detail {

template <class Where>
inline constexpr bool cuts_sequence = false;
template <class M, int Rank, int... Codes>
inline constexpr bool cuts_sequence<Placed<M, Rank, Codes...>> = ((Codes == 2) || ...);

/// A field (samples, heads, points, width) of T where the mesh dimensions that cut points cut heads.
template <class T, class Where>
using field_by_heads = typename field_of<T, typename placed_instead<2, 1, Where>::type>::type;

/// What forward has left for backward, all by heads.
template <class T, class S, class Where>
struct AttentionByHeads {
  field_by_heads<S, Where> query, key, value;
  field_by_heads<T, Where> output, logsumexp;
};

/// The extents that decide, of all ranks together.
struct AttentionWay {
  index_t query_heads, key_heads, queries, keys, width;  ///< width: of a key and a value
  int ranks;                                             ///< that cut the sequence
  int parts;                                             ///< of the heads, if those ranks cut them
  bool is_causal;                                        ///< then a piece goes round half of the ranks
  bool bias_is_cut = false;                              ///< along queries or heads: by heads it is not at hand

  constexpr bool divides() const { return query_heads % parts == 0 && key_heads % parts == 0; }
  constexpr bool can_go_by_heads() const { return divides() && !bias_is_cut; }
  /// Values of a sample that all ranks together send forward, times ranks / (ranks - 1).
  constexpr index_t by_ring() const { return key_heads * keys * width * ranks / (is_causal ? 2 : 1); }
  constexpr index_t by_heads() const { return (query_heads * queries + key_heads * keys) * width; }

  /// Whether it goes by heads. Throws CollectiveError where that was asked for and heads do not divide.
  bool goes_by_heads(ContextParallel asked) const {
    if (ranks == 1 || asked == ContextParallel::ring) return false;
    if (can_go_by_heads()) return asked == ContextParallel::all_to_all || by_heads() < by_ring();
    if (asked == ContextParallel::automatic) return false;
    if (bias_is_cut)
      throw CollectiveError(
          "attention by heads: the bias is cut along queries or heads, so a rank lacks what its new heads ask: give it "
          "Replicate there, or use ContextParallel::ring");
    throw CollectiveError("attention by heads: " + std::to_string(parts) + " ranks would share " +
                          std::to_string(query_heads) + " heads of queries and " + std::to_string(key_heads) +
                          " of keys, which they do not divide: use as many heads, or ContextParallel::ring");
  }
};

template <class Where, class Query, class Key, class Value>
AttentionWay attention_way(const Query& query, const Key& key, const Value& value, bool is_causal) {
  const Decomposition& pieces = query.decomposition();
  const Decomposition apart(query.mesh().extents(), field_by_heads<typename Query::value_type, Where>::placements,
                            Query::mesh_type::names);
  return {query.extent(1), key.extent(1),  query.extent(2), key.extent(2), query.extent(3) + value.extent(3),
          pieces.parts(2), apart.parts(1), is_causal};
}

}  // namespace detail
}  // namespace halogen
