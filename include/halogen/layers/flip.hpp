// Flip<Dims...>: y = x with the points of these dimensions in the opposite order, as torch.flip(x, Dims).
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W) -> y: the same; Dims: of 2 and beyond, each once
//
//   placements of x         placements of y   forward and backward
//   a cut dimension flipped the same, cut as x what lies on another rank than its image is sent there, once
//   others                  the same          nothing
//   Shard<1>, Partial       does not compile: why::channels_are_cut, why::input_is_partial
//
// y is stored. vjp: y's gradient, flipped. Nothing is added, so bits do not depend on the mesh. Not captured on a
// device (layers/functions/function.hpp).
#pragma once

#include "halogen/autograd/rearranged.hpp"
#include "halogen/layers/functions/function.hpp"

namespace halogen {
namespace detail {

template <int First, int... Dims>
struct FlipOf {
  template <class Field>
  auto operator()(const Field& x) const {
    static_assert(First < placed_at<Field>::rank, "Flip<Dims...> names a dimension that the field does not have");
    if constexpr (sizeof...(Dims) == 0)
      return flip<First>(x);
    else
      return flip<First>(FlipOf<Dims...>{}(x));
  }
};

}  // namespace detail

template <int... Dims>
struct Flip : Function<detail::FlipOf<Dims...>> {
  static_assert(((Dims >= 2) && ...), "Flip turns dimensions of space: 2 and beyond");
};

}  // namespace halogen
