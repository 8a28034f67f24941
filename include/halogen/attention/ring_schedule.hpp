// Which piece of keys is where when pieces travel round the ranks that cut a sequence: known everywhere from the cuts.
#pragma once

#include <array>

#include "halogen/attention/row_parts.hpp"

namespace halogen {

/// Rank r holds piece r at step 0 and sends on what it holds: at step s it has piece (r - s) mod ranks. A piece travels
/// as far as somebody sees it and no further; a piece without points does not travel.
///
/// Zigzag: cuts have twice as many parts as there are ranks, and piece r is parts r and 2 ranks - 1 - r, an early and a
/// late one. So of a causal triangle all pieces see about as many keys, and are seen by as many queries.
struct RingSchedule {
  int rank = 0;
  Cut queries, keys;
  bool is_causal = false;  ///< query i sees keys 0..i
  bool is_zigzag = false;

  /// Cuts of a sequence for a zigzag ring.
  static Cut zigzag(index_t extent, int ranks) { return Cut::balanced(extent, 2 * ranks); }

  static RingSchedule zigzag_of(int rank, const Cut& queries, const Cut& keys) {
    return {rank, zigzag(queries.extent(), queries.parts()), zigzag(keys.extent(), keys.parts()), true, true};
  }

  int ranks() const { return is_zigzag ? keys.parts() / 2 : keys.parts(); }
  /// Piece r of a cut: its rows, of which the second part may be empty.
  std::array<Interval, 2> piece(const Cut& cut, int r) const {
    if (!is_zigzag) return {cut.piece(r), Interval{cut.piece(r).end, cut.piece(r).end}};
    return {cut.piece(r), cut.piece(cut.parts() - 1 - r)};
  }
  RowParts parts(const Cut& cut) const {
    RowParts all;
    for (int r = 0; r < ranks(); ++r) all.push_back({piece(cut, r)[0], piece(cut, r)[1]});
    return all;
  }
  index_t key_count(int r) const { return piece(keys, r)[0].size() + piece(keys, r)[1].size(); }
  /// Pairs of a query of rank r and a key that it sees: what it has to compute.
  index_t work(int r) const {
    index_t pairs = 0;
    for (const Interval& part : piece(queries, r))
      for (index_t i = part.begin; i < part.end; ++i)
        pairs += is_causal ? std::min(i + 1, keys.extent()) : keys.extent();
    return pairs;
  }
  int piece_at(int step) const { return modulo(rank - step); }
  int next() const { return modulo(rank + 1); }
  int previous() const { return modulo(rank - 1); }

  /// Whether some query of rank r sees some key of a piece.
  bool sees(int r, int number) const {
    const auto of_queries = piece(queries, r), of_keys = piece(keys, number);
    const Interval query = hull(of_queries[0], of_queries[1]), key = hull(of_keys[0], of_keys[1]);
    return !query.empty() && !key.empty() && (!is_causal || key.begin < query.end);
  }
  /// Hops from its owner to the first rank that sees it (ranks() where none does), and to the last (0 where none).
  int first_hop(int piece) const {
    int hop = 0;
    while (hop < ranks() && !sees(modulo(piece + hop), piece)) ++hop;
    return hop;
  }
  int last_hop(int piece) const {
    int hop = ranks() - 1;
    while (hop > 0 && !sees(modulo(piece + hop), piece)) --hop;
    return hop;
  }
  /// Whether a piece goes from its holder at `step` to the next rank.
  bool travels(int piece, int step) const { return step < last_hop(piece); }
  /// The same for what holders add up about it, from the first that sees it on. The last one sends it home.
  bool sum_travels(int piece, int step) const { return first_hop(piece) <= step && step < last_hop(piece); }
  bool goes_home(int piece, int step) const { return step > 0 && step == last_hop(piece); }

  /// Calls f(positions) for each message that `rank` sends with keys and values in one round.
  template <class F>
  void each_sent_piece(F f) const {
    for (int step = 0; step + 1 < ranks(); ++step)
      if (travels(piece_at(step), step)) f(key_count(piece_at(step)));
  }
  /// The same of what is added up about them, and goes home.
  template <class F>
  void each_sent_sum(F f) const {
    for (int step = 0; step < ranks(); ++step) {
      if (sum_travels(piece_at(step), step)) f(key_count(piece_at(step)));
      if (goes_home(piece_at(step), step)) f(key_count(piece_at(step)));
    }
  }

  bool operator==(const RingSchedule&) const = default;

 private:
  int modulo(int r) const { return (r % ranks() + ranks()) % ranks(); }
};

/// Positions that ranks which cut a sequence so do not hold in a zigzag ring.
inline index_t moved_for_zigzag(const Cut& cut) {
  const RingSchedule ring{0, {}, RingSchedule::zigzag(cut.extent(), cut.parts()), true, true};
  index_t moved = 0;
  for (int r = 0; r < cut.parts(); ++r)
    for (const Interval& part : ring.piece(ring.keys, r)) moved += part.size() - intersect(part, cut.piece(r)).size();
  return moved;
}

}  // namespace halogen
