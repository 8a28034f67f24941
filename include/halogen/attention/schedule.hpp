// What attention moves between the ranks that cut a sequence, in order. The pass that moves fields follows it
// (attention/pass.hpp), and so does the dry run that counts messages and memory (attention/dry_run.hpp).
#pragma once

#include "halogen/attention/way.hpp"

namespace halogen::detail {

/// The rows of an attention: operands, results, and the gradients of both.
enum class AttentionRows { query, key, value, output, logarithms, owed, query_gradient, key_gradient, value_gradient };

constexpr bool are_of_keys(AttentionRows rows) {
  using enum AttentionRows;
  return rows == key || rows == value || rows == key_gradient || rows == value_gradient;
}

/// Whether they have the stored type of the operands; others are computed.
constexpr bool are_stored(AttentionRows rows) {
  using enum AttentionRows;
  return rows == query || rows == key || rows == value;
}
/// How wide they are: of queries and keys, or of values and results.
constexpr int width_of(AttentionRows rows, int width, int value_width) {
  using enum AttentionRows;
  if (rows == logarithms) return 1;
  return rows == query || rows == key || rows == query_gradient || rows == key_gradient ? width : value_width;
}

/// The moves of one attention. Run moves rows or counts what moves:
///
///   there(rows), back(rows)   to the ranks where attention is computed, and back to where the field is
///   gather(rows)              to all ranks
///   attend()                  kernels, and the ring of keys and values if the way has one
///   pull(of_query, of_keys)   the same backward: kernels of the gradients asked for
struct AttentionSchedule {
  ContextParallel way;  ///< as AttentionWay chooses it

  /// Whether attention is computed where other rows are than those of the field.
  constexpr bool moves_rows() const { return way == ContextParallel::zigzag || way == ContextParallel::all_to_all; }
  constexpr bool gathers() const { return way == ContextParallel::deterministic; }
  constexpr bool has_ring() const { return way == ContextParallel::zigzag || way == ContextParallel::ring; }

  template <class Run>
  void forward(Run& run) const {
    using enum AttentionRows;
    if (moves_rows())
      for (const AttentionRows rows : {query, key, value}) run.there(rows);
    if (gathers())
      for (const AttentionRows rows : {key, value}) run.gather(rows);
    run.attend();
    if (moves_rows()) run.back(output);
  }
  /// The logarithms of the sums come to where the queries are.
  template <class Run>
  void keep(Run& run) const {
    if (moves_rows()) run.back(AttentionRows::logarithms);
  }
  /// As if forward had run, from the result and the logarithms that were kept.
  template <class Run>
  void resume(Run& run) const {
    using enum AttentionRows;
    if (moves_rows())
      for (const AttentionRows rows : {query, key, value, output, logarithms}) run.there(rows);
  }
  /// If keys are gathered, the gradient of the queries comes first: a rank has that of its own queries by all keys, and
  /// of its own keys by all queries.
  template <class Run>
  void backward(Run& run, bool of_query, bool of_keys) const {
    using enum AttentionRows;
    if (gathers()) {
      if (of_query) {
        for (const AttentionRows rows : {key, value}) run.gather(rows);
        run.pull(true, false);
      }
      if (of_keys) {
        for (const AttentionRows rows : {query, output, owed, logarithms}) run.gather(rows);
        run.pull(false, true);
      }
      return;
    }
    if (moves_rows()) run.there(owed);
    run.pull(of_query, of_keys);
    if (!moves_rows()) return;
    if (of_query) run.back(query_gradient);
    if (of_keys)
      for (const AttentionRows rows : {key_gradient, value_gradient}) run.back(rows);
  }
};

}  // namespace halogen::detail
