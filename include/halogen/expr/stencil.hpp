// User stencils: a functor of neighbouring values, at offsets that it declares.
#pragma once

#include "halogen/expr/pointwise.hpp"

namespace halogen {

/// One neighbour, by its distance in each dimension.
template <int... Distance>
using At = std::integer_sequence<int, Distance...>;

/// The neighbours that a stencil reads, in the order of its operator()'s values.
template <class... Neighbours>
struct Footprint {};

namespace detail {

template <class F, class E, class... Neighbours>
auto stencil_of(const F& f, const E& e, Footprint<Neighbours...>) {
  return Pointwise<F, decltype(shifted<0>(e, Neighbours{}))...>(f, shifted<0>(e, Neighbours{})...);
}

template <class F>
concept HasFootprint = requires { typename F::footprint; };

}  // namespace detail

/// f at every point of u, of the neighbours that F::footprint names:
///
///   struct Upwind {
///     using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<0, 1>>;
///     template <class T> KOKKOS_FUNCTION T operator()(T centre, T west, T east) const { ... }
///   };
///   u = hg::stencil(Upwind{}, hg::with_boundary<hg::Zero, hg::Periodic>(u));
///
/// The halo follows from the footprint. Where operator() is a template of its values' type, its derivatives are found
/// by calling it with dual numbers; it may define partial<I>(neighbours...) instead.
template <detail::HasFootprint F, FieldOperand X>
auto stencil(F f, const X& x) {
  return detail::stencil_of(f, as_expression(x), typename F::footprint{});
}

}  // namespace halogen
