// The gradients of flatten_pieces and unflatten_pieces: each is the other's.
#pragma once

#include "halogen/array/stages/flattened_pieces.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

template <int A, int B, class E, class C, class All>
void pull(const FlattenedPieces<A, B, E>& node, const C& cotangent, All& gradients) {
  using Field = field_of_t<E, typename C::value_type>;
  backward_from(node.inner, pieces_apart<A, B, Field>(shape_of<Field>(node.inner), cotangent), gradients);
}

template <int A, int B, class E, class Like, class C, class All>
void pull(const UnflattenedPieces<A, B, E, Like>& node, const C& cotangent, All& gradients) {
  using Field = field_of_t<E, typename C::value_type>;
  backward_from(node.inner, pieces_joined<A, B, Field>(cotangent), gradients);
}

}  // namespace halogen::detail
