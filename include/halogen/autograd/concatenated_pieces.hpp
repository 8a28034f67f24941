// The gradient of concatenate_pieces: a part for the field, and for the rows what the first piece has of them.
#pragma once

#include "halogen/array/stages/concatenated_pieces.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

template <int D, class Rows, class E, class C, class All>
void pull(const ConcatenatedPieces<D, Rows, E>& node, const C& cotangent, All& gradients) {
  using T = typename C::value_type;
  const index_t rows = stored_extent(node.rows, D), here = rows_here<D>(cotangent, rows);
  if constexpr (has_variable<E>) {
    using Field = field_of_t<E, T>;
    const Field own(shape_of<Field>(node.inner), Field::Start::unwritten);
    copy_rows_along<D>(cotangent, here, own, 0, own.local_extent(D));
    backward_from(node.inner, own, gradients);
  }
  if constexpr (has_variable<Rows>) {
    using Whole = field_of_t<Rows, T>;
    using Share = typename field_of<T, typename placed_instead<D, partial_code, typename E::placed>::type>::type;
    const auto shape = shape_of<Whole>(node.rows);
    const Share share(Share::make_shape(cotangent.mesh(), shape->cuts()));
    copy_rows_along<D>(cotangent, 0, share, 0, here);
    if constexpr (std::is_same_v<Share, Whole>)
      backward_from(node.rows, share, gradients);
    else
      backward_from(node.rows, redistribute_to(share, Whole(shape, Whole::Start::unwritten)), gradients);
  }
}

}  // namespace halogen::detail
