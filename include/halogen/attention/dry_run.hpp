// What attention will send and allocate, before its fields exist: a dry run of its schedule. It says what networks'
// dry runs and explain need of a rank.
#pragma once

#include <set>
#include <tuple>

#include "halogen/attention/ring_schedule.hpp"
#include "halogen/attention/schedule.hpp"
#include "halogen/core/half.hpp"
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
  AttentionSchedule schedule() const { return {ways().chosen(parallel)}; }
  /// For explain: the way, of a batch of so many samples; empty if nothing moves.
  std::string words(index_t batch) const {
    if (ranks() == 1) return {};
    return words_of(ways(), schedule().way, batch * static_cast<index_t>(bytes.stored));
  }
};

/// Follows a schedule and counts what this rank sends and allocates: rows of the operands, of the result and of their
/// gradients, and what travels between ranks. Launches of equal shapes use the same memory, which is kept from step to
/// step, so rows and messages of one shape count once. Masks, biases, tokens and logarithms are not counted.
class AttentionDryRun {
 public:
  /// The traffic of forward, which `keeps` its logarithms for a backward pass that comes as another launch; or of
  /// backward, which resumes.
  static TrafficUse traffic(const AttentionPlace& at, bool backward, bool keeps) {
    AttentionDryRun run(at);
    run.follow(!backward, keeps, backward);
    return run.traffic_;
  }
  /// Bytes on this rank beside stored tensors, in a training step or in inference.
  static index_t memory(const AttentionPlace& at, bool trains) {
    using enum AttentionRows;
    AttentionDryRun run(at);
    const auto rows_here = [&run](AttentionRows rows) { return run.values(rows, run.home(rows)); };
    for (const AttentionRows rows : {query, key, value, output}) run.memory_ += rows_here(rows) * run.bytes(rows);
    if (trains) {
      for (const AttentionRows rows : {owed, query_gradient, key_gradient, value_gradient})
        run.memory_ += rows_here(rows) * run.bytes(rows);
      run.memory_ += rows_here(owed) * static_cast<index_t>(at.bytes.stored);  // as it is stored
    }
    run.follow(true, trains, trains);
    return run.memory_;
  }

 private:
  friend struct AttentionSchedule;
  /// The positions and heads that each rank has.
  struct Held {
    RowParts positions;
    std::vector<Interval> heads;
  };

  explicit AttentionDryRun(const AttentionPlace& at) : at_(at), schedule_(at.schedule()) {
    ring_ = schedule_.way == ContextParallel::zigzag ? RingSchedule::zigzag_of(at.rank, at.queries, at.keys)
                                                     : RingSchedule{at.rank, at.queries, at.keys, at.is_causal, false};
  }
  void follow(bool forward, bool keeps, bool backward) {
    if (forward) schedule_.forward(*this);
    if (forward && keeps) schedule_.keep(*this);
    if (backward) schedule_.resume(*this), schedule_.backward(*this, true, true);
  }

  // -- as AttentionSchedule asks -----------------------------------------------------------------------------------
  void there(AttentionRows rows) { move(rows, home(rows), elsewhere(rows), false); }
  void back(AttentionRows rows) { move(rows, elsewhere(rows), home(rows), true); }
  void gather(AttentionRows rows) {
    const Held all{all_positions(rows), all_heads(rows)};
    count(rows, home(rows), all);
    allocate(rows, all);
  }
  void attend() {
    if (at_.ranks() == 1 || !schedule_.has_ring()) return;
    ring_.each_sent_piece([this](index_t keys) { traffic_.add(of_keys(keys) * bytes(AttentionRows::key)); });
    if (travels_) return;
    travels_ = true;
    memory_ += 2 * of_keys(most_keys()) * bytes(AttentionRows::key);
    const Interval queries = at_.queries.piece(at_.rank);  // sums of a query between the steps
    memory_ += at_.samples * at_.query_heads * queries.size() * (at_.value_width + 2) * bytes(AttentionRows::output);
  }
  void pull(bool, bool) {
    attend();
    if (at_.ranks() == 1 || !schedule_.has_ring()) return;
    ring_.each_sent_sum([this](index_t keys) { traffic_.add(of_keys(keys) * bytes(AttentionRows::key_gradient)); });
    memory_ += 4 * of_keys(most_keys()) * bytes(AttentionRows::key_gradient);
  }

  // -- rows --------------------------------------------------------------------------------------------------------
  std::size_t ranks() const { return static_cast<std::size_t>(at_.ranks()); }
  const Cut& cut(AttentionRows rows) const { return are_of_keys(rows) ? at_.keys : at_.queries; }
  index_t heads(AttentionRows rows) const { return are_of_keys(rows) ? at_.key_heads : at_.query_heads; }
  index_t bytes(AttentionRows rows) const {
    return static_cast<index_t>(are_stored(rows) ? at_.bytes.stored : at_.bytes.computed);
  }
  index_t width(AttentionRows rows) const { return width_of(rows, at_.width, at_.value_width); }
  index_t of_keys(index_t keys) const { return at_.samples * at_.key_heads * (at_.width + at_.value_width) * keys; }
  index_t most_keys() const {
    index_t most = 0;
    for (int piece = 0; piece < ring_.ranks(); ++piece) most = std::max(most, ring_.key_count(piece));
    return most;
  }

  RowParts all_positions(AttentionRows rows) const {
    return RowParts(ranks(), std::vector<Interval>{Interval{0, cut(rows).extent()}});
  }
  std::vector<Interval> all_heads(AttentionRows rows) const {
    return std::vector<Interval>(ranks(), Interval{0, heads(rows)});
  }
  Held home(AttentionRows rows) const { return {parts_of(cut(rows)), all_heads(rows)}; }
  Held elsewhere(AttentionRows rows) const {
    if (schedule_.has_ring()) return {ring_.parts(are_of_keys(rows) ? ring_.keys : ring_.queries), all_heads(rows)};
    Held held{all_positions(rows), {}};
    const Cut apart = Cut::chunk(heads(rows), at_.ranks());
    for (int rank = 0; rank < at_.ranks(); ++rank) held.heads.push_back(apart.piece(rank));
    return held;
  }
  /// Values that one rank has `from` a move and another `to` which it goes.
  index_t values(AttentionRows rows, const Held& from, int sender, const Held& to, int receiver) const {
    const auto s = static_cast<std::size_t>(sender), r = static_cast<std::size_t>(receiver);
    index_t count = 0;
    for (const RowRun& run : runs_between(from.positions[s], RowParts{to.positions[r]})) count += run.count;
    return at_.samples * count * intersect(from.heads[s], to.heads[r]).size() * width(rows);
  }
  index_t values(AttentionRows rows, const Held& held) const { return values(rows, held, at_.rank, held, at_.rank); }

  /// Once for these rows.
  void allocate(AttentionRows rows, const Held& held) {
    if (rows != AttentionRows::logarithms && allocated_.insert(rows).second)
      memory_ += values(rows, held) * bytes(rows);
  }
  void count(AttentionRows rows, const Held& from, const Held& to) {
    for (int peer = 0; peer < at_.ranks(); ++peer)
      if (peer != at_.rank) traffic_.add(values(rows, from, at_.rank, to, peer) * bytes(rows));
  }
  void move(AttentionRows rows, const Held& from, const Held& to, bool back) {
    count(rows, from, to);
    allocate(rows, back ? from : to);
    if (rows == AttentionRows::logarithms) return;
    const bool in_ring = schedule_.has_ring();
    const AttentionRows like = rows == AttentionRows::owed ? AttentionRows::output : rows;
    const std::tuple shape(in_ring ? static_cast<index_t>(like) : heads(rows), width(rows), bytes(rows), back);
    if (!messages_.insert(shape).second) return;
    for (int peer = 0; peer < at_.ranks(); ++peer)
      if (in_ring || peer != at_.rank)  // RowsMove packs what stays, too
        memory_ += (values(rows, from, at_.rank, to, peer) + values(rows, from, peer, to, at_.rank)) * bytes(rows);
  }

  const AttentionPlace& at_;
  AttentionSchedule schedule_;
  RingSchedule ring_;
  TrafficUse traffic_;
  index_t memory_ = 0;
  bool travels_ = false;
  std::set<AttentionRows> allocated_;                               ///< where attention is computed
  std::set<std::tuple<index_t, index_t, index_t, bool>> messages_;  ///< the moves that have memory
};

}  // namespace halogen::detail
