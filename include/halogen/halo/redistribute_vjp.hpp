// The adjoint of redistribute: the cotangent of the target, placed back as the gradient of the source.
#pragma once

#include <utility>

#include "halogen/halo/redistribute.hpp"

namespace halogen {
namespace detail {

template <class Field>
struct gradient_field;
template <class TensorType, class MeshType, class... Placements>
struct gradient_field<Sharded<TensorType, MeshType, Placements...>> {
  using type = Sharded<TensorType, MeshType, gradient_placement_t<Placements>...>;
};

}  // namespace detail

/// The type of a field's gradient: Replicate and Partial change places, Shard stays.
template <class Field>
using gradient_field_t = typename detail::gradient_field<Field>::type;

/// vjp of redistribute_to(source, target): `cotangent` is a gradient_field_t<Target>, the result a
/// gradient_field_t<Source> on the mesh and cuts of `source`, newly made (`=`, nothing is added to). It is a
/// redistribution itself, by the transposed table:
///
///   forward                          backward
///   Shard -> Replicate  all to all      Partial -> Shard      reduce_scatter
///   Replicate -> Shard  nothing         Shard -> Partial      nothing
///   Partial -> Replicate  all_reduce    Partial -> Replicate  all_reduce
///   Partial -> Shard  reduce_scatter    Shard -> Replicate    all to all
///   Shard -> Partial  nothing           Replicate -> Shard    nothing
///   Shard -> Shard  all to all          Shard -> Shard        all to all, the other way
///   Replicate -> Partial and what keeps its placement: nothing, as backward
///
/// Law: <f(x), y> = <x, vjp(y)>, both sums over all ranks of products of what they store. Kept for repetition:
/// Redistribution<gradient_field_t<Source>, gradient_field_t<Target>>; between meshes redistribute_between, likewise.
template <class Source, class Cotangent>
  requires detail::Redistributable<gradient_field_t<Source>, Cotangent>
gradient_field_t<Source> redistribute_vjp(const Cotangent& cotangent, const Source& source) {
  using Gradient = gradient_field_t<Source>;
  const auto& mesh = source.mesh("redistribute_vjp");
  return redistribute_to(cotangent, Gradient(Gradient::make_shape(mesh, source.cuts())));
}

}  // namespace halogen
