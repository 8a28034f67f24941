// The neighbours that a user's functor of points reads (array/expression/stencil.hpp, layers/functions/stencil.hpp).
#pragma once

#include <utility>

namespace halogen {

/// One neighbour, by its distance in each dimension.
template <int... Distance>
using At = std::integer_sequence<int, Distance...>;

/// The neighbours that a stencil reads, in the order of its operator()'s values.
template <class... Neighbours>
struct Footprint {};

namespace detail {
template <int Radius, int... I>
auto square_footprint(std::integer_sequence<int, I...>)
    -> Footprint<At<I / (2 * Radius + 1) - Radius, I % (2 * Radius + 1) - Radius>...>;
}  // namespace detail

/// All points of a plane at most Radius away, row by row: 25 for a Radius of 2.
template <int Radius>
using SquareFootprint =
    decltype(detail::square_footprint<Radius>(std::make_integer_sequence<int, (2 * Radius + 1) * (2 * Radius + 1)>{}));

}  // namespace halogen
