// Rows of attention in the order of their points' numbers. If a field is cut along several dimensions, its sequence has
// the points piece after piece. Deterministic attention takes them in the same order on every mesh.
#pragma once

#include "halogen/array/attention/attention_bias.hpp"
#include "halogen/array/attention/head_rows.hpp"

namespace halogen::detail {

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
