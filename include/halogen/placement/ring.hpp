// Which piece of keys is where when pieces travel round the ranks that cut a sequence: known everywhere from the cuts.
#pragma once

#include "halogen/placement/chunk.hpp"

namespace halogen {

/// Rank r holds piece r at step 0 and sends on what it holds: at step s it has piece (r - s) mod ranks. A piece travels
/// as far as somebody sees it and no further; a piece without points does not travel.
struct RingSchedule {
  int rank = 0;
  Cut queries, keys;
  bool is_causal = false;  ///< query i sees keys 0..i

  int ranks() const { return keys.parts(); }
  int piece_at(int step) const { return modulo(rank - step); }
  int next() const { return modulo(rank + 1); }
  int previous() const { return modulo(rank - 1); }

  /// Whether some query of rank r sees some key of a piece.
  bool sees(int r, int piece) const {
    const Interval query = queries.piece(r), key = keys.piece(piece);
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

  bool operator==(const RingSchedule&) const = default;

 private:
  int modulo(int r) const { return (r % ranks() + ranks()) % ranks(); }
};

}  // namespace halogen
