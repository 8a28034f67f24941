// Functions of reductions and neighbours whose plain formula is wrong at its ends: torch.argmin, allclose, softmin,
// normalize, cosine_similarity, gradient. Placements, messages and gradients follow from what they are made of.
#pragma once

#include "halogen/array/composed_functions.hpp"
#include "halogen/array/stages/statistics.hpp"

namespace halogen {
namespace detail {
namespace types {
/// A value for each value, smaller for a larger one: minus the smallest integer, or an unsigned one, would be none.
struct Reversed {
  static constexpr bool has_gradient = false;
  template <class A>
  KOKKOS_FUNCTION A operator()(A a) const {
    if constexpr (std::is_same_v<A, bool>)
      return !a;
    else if constexpr (std::is_integral_v<A>)
      return static_cast<A>(~a);
    else
      return -a;
  }
};
}  // namespace types

template <class N>
auto at_least(const N& norm, double least) {
  return maximum(norm, static_cast<typename N::value_type>(least));
}
}  // namespace detail

/// The index of the smallest value, of the whole field row-major, or along Dim, as torch.argmin. The first of equal
/// values wins; NaN counts as smallest.
template <FieldOperand X>
auto argmin(const X& x) {
  return argmax(halogen::apply(detail::types::Reversed{}, x));
}
template <int Dim, FieldOperand X>
auto argmin(const X& x) {
  return argmax<Dim>(halogen::apply(detail::types::Reversed{}, x));
}
template <int Dim, FieldOperand X>
auto argmin(const X& x, KeepDimensions keep) {
  return argmax<Dim>(halogen::apply(detail::types::Reversed{}, x), keep);
}

/// Whether isclose holds at all points: a number. Collective, one all_reduce.
template <class A, class B>
  requires detail::Combinable<A, B>
auto allclose(const A& u, const B& v, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false) {
  return min(cast<int>(isclose(u, v, relative, absolute, equal_nan))) == 1;
}
template <class A, class B, class Why = detail::WhyNotCombined<A, B>>
  requires detail::Uncombinable<A, B>
void allclose(const A& u, const B& v, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false) = delete;

/// softmax of -x, for integers in double.
template <int First, int... Dims, FieldOperand X>
auto softmin(const X& x) {
  return softmax<First, Dims...>(-detail::wide(x));
}

/// x over its Euclidean norm along the given dimensions, or over eps where that is larger, as
/// torch.nn.functional.normalize. Computed in double and rounded once; for integers it stays double.
template <int First, int... Dims, FieldOperand X>
auto normalize(const X& x, double eps = 1e-12) {
  const auto wide = detail::widened(x);
  return detail::in_type_of<X>(wide / detail::at_least(norm<First, Dims...>(wide, keep_dimensions), eps));
}

/// dot(u, v) over both norms, or over eps in place of a norm that is smaller, as torch.cosine_similarity, of whole
/// fields or along the given dimensions, in double.
template <FieldOperand A, FieldOperand B>
  requires detail::Combinable<A, B>
auto cosine_similarity(const A& u, const B& v, double eps = 1e-8) {
  return dot(u, v) / (detail::at_least(norm(u), eps) * detail::at_least(norm(v), eps));
}
template <int First, int... Dims, FieldOperand A, FieldOperand B>
  requires detail::Combinable<A, B>
auto cosine_similarity(const A& u, const B& v, double eps = 1e-8) {
  const auto a = detail::widened(u);
  const auto b = detail::widened(v);
  return sum<First, Dims...>(a * b) /
         (detail::at_least(norm<First, Dims...>(a), eps) * detail::at_least(norm<First, Dims...>(b), eps));
}

/// The derivative of u along Dim, as torch.gradient: central differences over points that are `spacing` apart, and
/// differences to one side at both ends. It reads one neighbour on each side. Throws CollectiveError if there is one
/// point.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto gradient(const X& u, double spacing = 1) {
  const auto e = detail::wide(u);
  using T = typename std::decay_t<decltype(e)>::value_type;
  const index_t points = e.extent(Dim);
  if (points < 2)
    throw CollectiveError("gradient: dimension " + std::to_string(Dim) +
                          " has less than the 2 points that a difference takes");
  const auto i = global_index<Dim>(e);
  const auto after = where(i == points - 1, e, shift<Dim, 1>(e));
  const auto before = where(i == index_t{0}, e, shift<Dim, -1>(e));
  const auto scale =
      where(i == index_t{0} || i == points - 1, static_cast<T>(1 / spacing), static_cast<T>(0.5 / spacing));
  return (after - before) * scale;
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void gradient(const X& u, double spacing = 1) = delete;

}  // namespace halogen
