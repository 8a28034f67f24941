// What a rank sends for attention, computed from the shapes for dry runs. It counts what
// attention/ring.hpp, attention_by_heads.hpp and attention_zigzag.hpp send, and what deterministic
// attention of points gathers.
#pragma once

#include "halogen/attention/ring_schedule.hpp"
#include "halogen/attention/way.hpp"
#include "halogen/placement/traffic.hpp"

namespace halogen::detail {

/// Attention of all heads of a rank's samples, by the ranks that cut the sequence.
struct AttentionPlace {
  index_t samples, query_heads, key_heads;
  index_t width, value_width;  ///< E and V
  Cut queries, keys;
  int rank;  ///< among the ranks that cut the sequence
  bool is_causal;
  ContextParallel parallel;
  ValueBytes bytes;

  int ranks() const { return queries.parts(); }
  AttentionWay ways() const {
    AttentionWay way = AttentionWay::of(queries, keys, is_causal);
    way.query_heads = query_heads, way.key_heads = key_heads, way.width = width + value_width;
    return way;
  }
  ContextParallel way() const { return ways().chosen(parallel); }
  /// For explain: the way, of a batch of so many samples; empty if nothing moves.
  std::string words(index_t batch) const {
    if (ranks() == 1) return {};
    return words_of(ways(), way(), batch * static_cast<index_t>(bytes.stored));
  }
};

/// Rows of `heads` heads, `width` wide, moved from some parts to others.
inline TrafficUse rows_traffic(const AttentionPlace& at, const RowParts& from, const RowParts& to, index_t heads,
                               index_t width, std::size_t bytes) {
  TrafficUse use;
  std::vector<index_t> rows(to.size());
  for (const RowRun& run : runs_between(from[static_cast<std::size_t>(at.rank)], to))
    if (run.peer != at.rank) rows[static_cast<std::size_t>(run.peer)] += run.count;
  for (const index_t count : rows) use.add(at.samples * heads * count * width * static_cast<index_t>(bytes));
  return use;
}

/// Rows moved between all heads of some positions and all positions of some heads.
inline TrafficUse heads_traffic(const AttentionPlace& at, const Cut& sequence, index_t heads, index_t width,
                                std::size_t bytes, bool back) {
  TrafficUse use;
  const Cut apart = Cut::chunk(heads, at.ranks());
  for (int peer = 0; peer < at.ranks(); ++peer) {
    const index_t rows = sequence.piece(back ? peer : at.rank).size(), of = apart.piece(back ? at.rank : peer).size();
    if (peer != at.rank) use.add(at.samples * of * rows * width * static_cast<index_t>(bytes));
  }
  return use;
}

/// One round of keys and values, and backward of their sums.
inline TrafficUse ring_traffic(const AttentionPlace& at, const RingSchedule& ring, bool backward) {
  TrafficUse use;
  const index_t values = at.samples * at.key_heads * (at.width + at.value_width);
  ring.each_sent_piece([&](index_t rows) { use.add(values * rows * static_cast<index_t>(at.bytes.stored)); });
  if (backward)
    ring.each_sent_sum([&](index_t rows) { use.add(values * rows * static_cast<index_t>(at.bytes.computed)); });
  return use;
}

/// The own rows of all heads, sent to all other ranks.
inline TrafficUse gather_traffic(const AttentionPlace& at, const Cut& sequence, index_t heads, index_t width,
                                 std::size_t bytes) {
  TrafficUse use;
  use.add(at.samples * heads * sequence.piece(at.rank).size() * width * static_cast<index_t>(bytes), at.ranks() - 1);
  return use;
}
/// Of deterministic attention: keys and values, and backward queries, their results and cotangents, and logarithms.
inline TrafficUse gathered_traffic(const AttentionPlace& at, bool backward) {
  TrafficUse use = gather_traffic(at, at.keys, at.key_heads, at.width, at.bytes.stored);
  use += gather_traffic(at, at.keys, at.key_heads, at.value_width, at.bytes.stored);
  if (!backward) return use;
  use += gather_traffic(at, at.queries, at.query_heads, at.width, at.bytes.stored);
  for (int i = 0; i < 2; ++i) use += gather_traffic(at, at.queries, at.query_heads, at.value_width, at.bytes.computed);
  use += gather_traffic(at, at.queries, at.query_heads, 1, at.bytes.computed);
  return use;
}

/// The traffic of forward, or of backward. If forward `keeps` its result and logarithms for a backward pass that comes
/// as another launch (Attention::found), the operands move twice.
inline TrafficUse attention_traffic(const AttentionPlace& at, bool backward, bool keeps = false) {
  if (at.ranks() == 1) return {};
  TrafficUse use;
  // operands there and the result back, or a cotangent there and three gradients back
  const auto moves = [&](const auto& of_queries, const auto& of_keys) {
    if (keeps) use += of_queries(at.query_heads, 1, at.bytes.computed, !backward);
    if (keeps && backward) {
      use += of_queries(at.query_heads, at.value_width, at.bytes.computed, false);
      use += of_queries(at.query_heads, at.width, at.bytes.stored, false);
      use += of_keys(at.key_heads, at.width, at.bytes.stored, false);
      use += of_keys(at.key_heads, at.value_width, at.bytes.stored, false);
    }
    const std::size_t bytes = backward ? at.bytes.computed : at.bytes.stored;
    use += of_queries(at.query_heads, at.value_width, at.bytes.computed, !backward);
    use += of_queries(at.query_heads, at.width, bytes, backward);
    use += of_keys(at.key_heads, at.width, bytes, backward);
    use += of_keys(at.key_heads, at.value_width, bytes, backward);
  };
  const ContextParallel way = at.way();
  if (way == ContextParallel::deterministic) return gathered_traffic(at, backward);
  if (way == ContextParallel::all_to_all) {
    moves([&](auto... rest) { return heads_traffic(at, at.queries, rest...); },
          [&](auto... rest) { return heads_traffic(at, at.keys, rest...); });
    return use;
  }
  RingSchedule ring{at.rank, at.queries, at.keys, at.is_causal, false};
  if (way == ContextParallel::zigzag) {
    ring.is_zigzag = true;
    ring.queries = RingSchedule::zigzag(at.queries.extent(), at.ranks());
    ring.keys = RingSchedule::zigzag(at.keys.extent(), at.ranks());
    const auto between = [&](const Cut& field, const Cut& zigzag) {
      return [&at, of_field = parts_of(field), of_ring = ring.parts(zigzag)](index_t heads, index_t width,
                                                                             std::size_t bytes, bool back) {
        return rows_traffic(at, back ? of_ring : of_field, back ? of_field : of_ring, heads, width, bytes);
      };
    };
    moves(between(at.queries, ring.queries), between(at.keys, ring.keys));
  }
  use += ring_traffic(at, ring, backward);
  return use;
}

}  // namespace halogen::detail
