// User stencils: a functor of neighbouring values, at offsets that it declares.
#pragma once

#include "halogen/array/expression/functions.hpp"
#include "halogen/stencil/footprint.hpp"

namespace halogen {

namespace detail {

template <class F, class E, class... Neighbours>
auto stencil_of(const F& f, const E& e, Footprint<Neighbours...>) {
  return Pointwise<F, decltype(shifted<0>(e, Neighbours{}))...>(f, shifted<0>(e, Neighbours{})...);
}

template <class F>
concept HasFootprint = requires { typename F::footprint; };

/// The number of distances of the first neighbour whose number of distances is not `rank`; else rank.
template <class... Neighbours>
constexpr int distances_beside(int rank, Footprint<Neighbours...>) {
  int found = rank;
  ((found == rank ? found = static_cast<int>(Neighbours::size()) : found), ...);
  return found;
}
template <class F, class X>
inline constexpr int distances_of = distances_beside(placed_at<X>::rank, typename F::footprint{});

}  // namespace detail

/// f at every point of u, applied to the neighbours that F::footprint names:
///
///   struct Upwind {
///     using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<0, 1>>;
///     template <class T> KOKKOS_FUNCTION T operator()(T centre, T west, T east) const { ... }
///   };
///   u = hg::stencil(Upwind{}, hg::with_boundary<hg::Zero, hg::Periodic>(u));
///
/// The halo follows from the footprint; each neighbour has a distance for each dimension of u. If operator() is a
/// template of the type of its values, derivatives are computed by calling it with dual numbers. Or F may define
/// partial<I>(neighbours...).
template <detail::HasFootprint F, FieldOperand X>
  requires(detail::distances_of<F, X> == placed_at<X>::rank)
auto stencil(F f, const X& x) {
  return detail::stencil_of(f, as_expression(x), typename F::footprint{});
}
template <detail::HasFootprint F, FieldOperand X,
          class Why = why::footprint_differs_in_rank<detail::distances_of<F, X>, placed_at<X>::rank>>
  requires(detail::distances_of<F, X> != placed_at<X>::rank)
auto stencil(F f, const X& x) = delete;

}  // namespace halogen
