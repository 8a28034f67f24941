// Rows of attention in the order of their points' numbers. If a field is cut along several dimensions, its sequence has
// the points piece after piece. Deterministic attention takes them in the same order on every mesh.
#pragma once

#include "halogen/array/attention_bias.hpp"
#include "halogen/array/head_rows.hpp"

namespace halogen::detail {

/// Row i of `to` is row positions[i] of `from`, or, with `back`, row positions[i] of `to` is row i of `from`. One work
/// item a row, on a device one a value.
template <class T>
struct MoveRowsInOrder {
  kernels::HeadRows<T> to;
  kernels::HeadRows<const T> from;
  const int* positions;
  bool back;
  index_t heads, count;
  int width;

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t i = runs_on_host ? item : item / width;
    const index_t sample = i / count / heads, head = i / count % heads, at = i % count;
    T* target = to.row(sample, head, back ? positions[at] : at);
    const T* source = from.row(sample, head, back ? at : positions[at]);
    const int begin = runs_on_host ? 0 : static_cast<int>(item % width), end = runs_on_host ? width : begin + 1;
    for (int e = begin; e < end; ++e) target[e] = source[e];
  }
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
  launch_range(execution_space{}, "halogen::rows_in_order", runs_on_host ? rows : rows * width,
               MoveRowsInOrder<T>{head_rows(moved), head_rows(field).read_only(), order.positions.data(), back,
                                  field.local_extent(1), field.local_extent(2), width});
  return moved;
}

}  // namespace halogen::detail
