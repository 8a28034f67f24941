// The gradient of flip and roll: every point of the cotangent goes back.
#pragma once

#include "halogen/array/stages/rearranged.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

template <int Dim, class E, class C, class All>
void pull(const Rearranged<Dim, E>& node, const C& cotangent, All& gradients) {
  backward_from(node.inner, rearranged(cotangent, Dim, node.back()), gradients);
}

}  // namespace halogen::detail
