// Rows of attention in the order of their points' numbers. Points of a field that is cut along several dimensions stand
// piece after piece in a sequence; deterministic attention takes them in one order on every mesh.
#pragma once

#include "halogen/array/attention_bias.hpp"
#include "halogen/array/head_rows.hpp"

namespace halogen::detail {

/// Row i of `to` is row positions[i] of `from`, or back: row positions[i] of `to` is row i of `from`. One work item a
/// row, on a device a value.
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

/// A field (samples, heads, points, width) of which this rank has all points: a copy with its rows in order, or `back`
/// from there; the field itself where nothing moves, or it holds nothing.
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
