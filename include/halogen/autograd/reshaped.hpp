// The gradients of select and squeeze, unflatten and flatten.
#pragma once

#include "halogen/array/stages/reshaped.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

/// The cotangent at the index that was read, 0 at others.
template <int Dim, class E, class C, class All>
void pull(const Selected<Dim, E>& node, const C& cotangent, All& gradients) {
  using Where = typename reshaped_place<typename FieldLeaf<C>::placed, Dim, 0, 1>::type;
  using Field = typename field_of<typename C::value_type, Where>::type;
  std::array<Cut, Field::rank> cuts;
  std::array<index_t, max_rank> extents{};
  for (int d = 0; d < Field::rank; ++d) {
    Cut& cut = cuts[static_cast<std::size_t>(d)];
    cut = d == Dim ? Cut::chunk(stored_extent(node.inner, Dim), 1) : cotangent.cut(d < Dim ? d : d - 1);
    extents[static_cast<std::size_t>(d)] = cut.extent();
  }
  const auto spread = unsqueezed<Dim>(leaf(cotangent));
  const GlobalIndex<Dim, Where> index(extents);
  backward_from(node.inner,
                computed<Field>(Field::make_shape(cotangent.mesh(), cuts),
                                where(zero_bounded(index) == node.index, spread, typename C::value_type(0))),
                gradients);
}

template <class E, int Dim, int From, int To, class C, class All>
void pull(const Reshaped<E, Dim, From, To>& node, const C& cotangent, All& gradients) {
  using Field = field_of_t<E, typename C::value_type>;
  backward_from(node.inner, node.template restored<Field>(cotangent), gradients);
}

}  // namespace halogen::detail
