// The stored tensors of a plan as fields, without a copy. A Function's expression reads and writes them.
#pragma once

#include <memory>

#include "halogen/run/evaluate.hpp"

namespace halogen::detail {

/// Fields of S with the placements of Image and any number of channels.
template <class Image, class S>
struct fields_like;
template <class T, int... Extents, class MeshType, class... P, class S>
struct fields_like<Sharded<Tensor<T, Extents...>, MeshType, P...>, S> {
  using type = Sharded<Tensor<S, (static_cast<void>(Extents), dyn)...>, MeshType, P...>;
  using vector = Sharded<Tensor<S, dyn, dyn>, MeshType, std::conditional_t<placement_code<P> == 0, P, Replicate>...>;
};

/// The shape of a stored tensor of a plan.
template <class Field, class S>
std::shared_ptr<const typename Field::Shape> shape_of_stored(const LaunchAt<S>& at,
                                                             const DeviceMesh<typename Field::mesh_type>& mesh,
                                                             TensorId tensor) {
  const StoredTensor& stored = at.plan().tensors[tensor];
  return Field::make_shape(mesh, at.layout().template field_cuts<Field::rank>(stored.level, stored.channels));
}

/// A stored tensor with the memory layout of a field.
template <class Field, class S>
Field field_over(const LaunchAt<S>& at, const DeviceMesh<typename Field::mesh_type>& mesh, TensorId tensor) {
  const TensorLayout& layout = at.layout_of(tensor);
  std::array<Margin, Field::rank> margins{};
  for (int d = 5 - Field::rank; d < spatial_dimensions; ++d)
    margins[static_cast<std::size_t>(Field::rank - spatial_dimensions + d)] = {
        layout.owned[d].begin - layout.stored[d].begin, layout.stored[d].end - layout.owned[d].end};
  margins[Field::rank - 1].hi += layout.row_stride - layout.stored[2].size();
  S* first = at.stored_tensor(tensor).data - (layout.owned[0].begin - layout.stored[0].begin) * layout.plane_stride;
  return Field::over_copied(shape_of_stored<Field>(at, mesh, tensor), first, margins);
}

}  // namespace halogen::detail
