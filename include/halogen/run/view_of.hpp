// A field as the kernels of a plan see it.
#pragma once

#include "halogen/core/tensor_view.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen::detail {

/// The view of a field's memory, including its margins.
template <class Field>
TensorView<typename Field::value_type> view_of(const Field& field) {
  const auto& storage = field.storage();
  const auto stride = [&](std::size_t d) { return static_cast<index_t>(storage.view.stride(d)); };
  TensorView<typename Field::value_type> view{
      storage.view.data() + storage.margins[0].lo * stride(0) + storage.margins[1].lo * stride(1), stride(0),
      stride(1)};
  if constexpr (Field::rank == 3) view.x0 = field.offset(2) - storage.margins[2].lo;
  if constexpr (Field::rank > 3) {
    constexpr std::size_t rows = Field::rank - 2;
    view.row_stride = stride(rows);
    view.y0 = field.offset(rows) - storage.margins[rows].lo;
    view.x0 = field.offset(rows + 1) - storage.margins[rows + 1].lo;
  }
  if constexpr (Field::rank == 5) {
    view.plane_stride = stride(2);
    view.data += storage.margins[2].lo * view.plane_stride;
    view.z0 = field.offset(2);
    view.planes = static_cast<int>(field.local_extent(2));
  }
  return view;
}

}  // namespace halogen::detail
