// The numbers of queries and keys that do not depend on the mesh: a bias of relative positions, dropout and
// deterministic attention use them. And rows in the order of these numbers: if a field is cut along several dimensions,
// its sequence has the points piece after piece, but deterministic attention takes them in the same order on every
// mesh.
#pragma once

#include "halogen/attention/head_rows.hpp"

namespace halogen::detail {

using PositionTable = Lasting<Kokkos::View<int*, memory_space>>;

/// Positions in the order of their numbers, and the numbers in this order. Empty if this is the order of the sequence.
struct PositionOrder {
  PositionTable positions, numbers;
  bool moves() const { return positions.extent(0) > 0; }
};

/// Which of the two are in the order of their numbers, if they have such an order.
struct InOrder {
  bool queries = false, keys = false;
};

/// The numbers of the positions of all queries and all keys, if the order of the sequences depends on the mesh. If the
/// bias is a table of relative positions, a query at n reads entry n - m + centre for a key at m. The first `tokens`
/// numbers are those of tokens, which have three entries after those of `distances` (kernels::PairBias).
struct PairNumbers {
  PositionTable queries, keys;
  index_t count = 0;  ///< numbers of queries are below it
  bool of_table = false;
  index_t centre = 0;
  int tokens = 0;
  index_t distances = 0;
  PositionOrder query_order, key_order;  ///< for deterministic attention

  const int* of_queries(InOrder in) const {
    return (in.queries && query_order.moves() ? query_order.numbers : queries).data();
  }
  const int* of_keys(InOrder in) const { return (in.keys && key_order.moves() ? key_order.numbers : keys).data(); }
};

/// This rank has all points of the field (samples, heads, points, width). Returns a copy with its rows in order, or
/// `back` from that order; the field itself if no row moves or the field is empty.
template <class Field>
Field rows_in_order(const Field& field, const PositionOrder& order, bool back) {
  if (!order.moves() || field.empty()) return field;
  using T = typename Field::value_type;
  const Field moved(field.shape(), Field::Start::unwritten);
  const index_t rows = field.local_extent(0) * field.local_extent(1) * field.local_extent(2);
  const int width = static_cast<int>(field.extent(3));
  using Move = MoveRows<T, T, false>;
  const int *there = order.positions.data(), *here = nullptr;
  launch_range(execution_space{}, "halogen::rows_in_order", Move::items(rows, width),
               Move{head_rows(moved), head_rows(field).read_only(), field.local_extent(1), field.local_extent(2), width,
                    back ? there : here, back ? here : there});
  return moved;
}

}  // namespace halogen::detail
