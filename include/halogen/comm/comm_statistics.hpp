// What this rank has sent so far. Tests compare it with formulas and with a counter that sits below MPI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halogen {

/// How often, and how many bytes.
struct Tally {
  std::int64_t count = 0;
  std::int64_t bytes = 0;

  void add(std::size_t more_bytes) { ++count, bytes += static_cast<std::int64_t>(more_bytes); }
  friend Tally operator-(const Tally& a, const Tally& b) { return {a.count - b.count, a.bytes - b.bytes}; }
  bool operator==(const Tally&) const = default;
};

/// Counts of *this* rank. A message is one point-to-point send as the transport sees it (a transfer longer than
/// detail::max_message_bytes is several); receives are not counted, they are the sends of others. A copy from this
/// rank to itself is no message. A collective counts one call and this rank's payload: the bytes it contributes, or
/// for broadcast and scatter_v the bytes it obtains. What emits nothing (one rank, zero bytes) counts nothing.
struct CommStatistics {
  Tally messages;
  Tally local_copies;
  Tally all_reduces;
  Tally reduce_scatters;
  Tally all_gathers;  // all_gather and all_gather_v
  Tally broadcasts;
  Tally gathers;
  Tally scatters;
  Tally barriers;
  Tally checks;  // all_reduces that compare what ranks were given, once for a field

  void reset() { *this = {}; }
  bool operator==(const CommStatistics&) const = default;

  /// Difference of two snapshots: `auto before = comm_stats(); ...; auto spent = comm_stats() - before;`.
  friend CommStatistics operator-(const CommStatistics& a, const CommStatistics& b) {
    return {a.messages - b.messages,       a.local_copies - b.local_copies,
            a.all_reduces - b.all_reduces, a.reduce_scatters - b.reduce_scatters,
            a.all_gathers - b.all_gathers, a.broadcasts - b.broadcasts,
            a.gathers - b.gathers,         a.scatters - b.scatters,
            a.barriers - b.barriers,       a.checks - b.checks};
  }
};

/// The counters of this process. Communication happens on one thread (MPI_THREAD_FUNNELED), so they are not atomic.
inline CommStatistics& comm_stats() {
  static CommStatistics statistics;
  return statistics;
}

}  // namespace halogen
