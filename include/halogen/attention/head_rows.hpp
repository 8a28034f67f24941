// The rows of attention's fields as kernels see them, and the kernel that copies or adds them.
#pragma once

#include "halogen/kernels/attention/attention_rows.hpp"
#include "halogen/tensor/space.hpp"
#include "halogen/tensor/strided_view.hpp"

namespace halogen::detail {

/// to = from, or to += from, for equally many rows. An order names the row that stands at a place; null: that place's
/// own. One work item a row, on a device one a value.
template <class To, class From, bool Add>
struct MoveRows {
  kernels::HeadRows<To> to;
  kernels::HeadRows<const From> from;
  index_t heads = 0, positions = 0;
  int width = 0;
  const int *to_order = nullptr, *from_order = nullptr;

  static index_t items(index_t rows, int width) { return runs_on_host ? rows : rows * width; }

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t i = runs_on_host ? item : item / width;
    const index_t sample = i / positions / heads, head = i / positions % heads, at = i % positions;
    To* target = to.row(sample, head, to_order == nullptr ? at : to_order[at]);
    const From* source = from.row(sample, head, from_order == nullptr ? at : from_order[at]);
    const int begin = runs_on_host ? 0 : static_cast<int>(item % width), end = runs_on_host ? width : begin + 1;
    for (int e = begin; e < end; ++e) {
      if constexpr (Add)
        target[e] += source[e];
      else
        target[e] = source[e];
    }
  }
};

/// The rows of a field (samples, heads, positions, width) that this rank holds.
template <class Field>
auto head_rows(const Field& field) {
  using T = typename Field::value_type;
  const auto view = strided_view(field);
  kernels::HeadRows<T> rows{view.data, view.stride[0], view.stride[1], view.stride[2]};
  for (int d = 0; d < 4; ++d) rows.data += (field.offset(d) - view.origin[d]) * view.stride[d];
  return rows;
}

}  // namespace halogen::detail
