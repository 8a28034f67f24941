// The memory that attention in a network takes beside stored tensors, computed from the shapes for dry runs: rows of
// the operands, of the result and of their gradients, and what travels between ranks. Launches of equal shapes use the
// same memory, which is kept from step to step. What travels has memory for each shape, and a layout counts the
// largest.
#pragma once

#include "halogen/attention/traffic.hpp"

namespace halogen::detail {

/// Bytes on this rank, in a training step or in inference. Masks, biases and tokens are not counted.
class AttentionMemory {
 public:
  AttentionMemory(const AttentionPlace& at, bool trains) : at_(at), trains_(trains) {}

  index_t bytes() const {
    const index_t queries = at_.queries.piece(at_.rank).size(), keys = at_.keys.piece(at_.rank).size();
    index_t bytes = rows(queries, keys, 1);
    if (trains_) bytes += result(queries) * stored();  // its gradient as backward reads it
    if (at_.ranks() == 1) return bytes;
    switch (at_.way()) {
      case ContextParallel::all_to_all:
        return bytes + rows(at_.queries.extent(), at_.keys.extent(), at_.ranks()) + messages_by_heads(queries, keys);
      case ContextParallel::deterministic:
        return bytes + gathered();
      case ContextParallel::zigzag:  // the rows in the order of the ring, and messages of rows there and back
        return bytes + 3 * rows(queries, keys, 1) + ring();
      default:
        return bytes + ring();
    }
  }

 private:
  index_t stored() const { return static_cast<index_t>(at_.bytes.stored); }
  index_t computed() const { return static_cast<index_t>(at_.bytes.computed); }
  index_t of_key() const { return at_.key_heads * (at_.width + at_.value_width); }
  /// Values of the result.
  index_t result(index_t queries) const { return at_.samples * at_.query_heads * at_.value_width * queries; }

  /// Rows of the operands and of the result, and backward of their gradients, of one of `parts` parts of the heads.
  index_t rows(index_t queries, index_t keys, index_t parts) const {
    const index_t operands = at_.samples * (at_.query_heads * at_.width * queries + of_key() * keys);
    const index_t backward = trains_ ? (operands + result(queries)) * computed() : 0;
    return (operands * stored() + result(queries) * computed() + backward) / parts;
  }
  /// Two pieces of keys and values, backward four of their sums, and the sums of a query between the steps.
  index_t ring() const {
    index_t most = 0;
    for (int part = 0; part < at_.keys.parts(); ++part) most = std::max(most, at_.keys.piece(part).size());
    const index_t pieces = at_.samples * of_key() * most * (2 * stored() + (trains_ ? 4 * computed() : 0));
    const index_t queries = at_.samples * at_.query_heads * at_.queries.piece(at_.rank).size();
    return pieces + queries * (at_.value_width + 2) * computed();
  }
  /// All keys and values, and backward all queries with their results and cotangents.
  index_t gathered() const {
    const index_t queries = at_.queries.extent(), heads = at_.samples * at_.query_heads;
    const index_t backward = trains_ ? heads * queries * at_.width * stored() + 2 * result(queries) * computed() : 0;
    return at_.samples * of_key() * at_.keys.extent() * stored() + backward;
  }
  /// What is sent and received, there and back. Moves of equal shapes use the same memory.
  index_t messages_by_heads(index_t queries, index_t keys) const {
    index_t values = result(queries);
    if (at_.key_heads != at_.query_heads) values += at_.samples * of_key() * keys / 2;
    return 4 * values * computed() * (at_.ranks() - 1) / at_.ranks();
  }

  const AttentionPlace& at_;
  bool trains_;
};

}  // namespace halogen::detail
