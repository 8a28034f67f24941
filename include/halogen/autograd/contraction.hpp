// The gradient of matmul and einsum: two products of the cotangent, each with the other operand. Where the result was
// summed over ranks the cotangent is made whole first; where an operand is whole and the cotangent cut, the operand's
// gradient is summed over ranks. A cotangent of 0 adds nothing, even if it is multiplied by a NaN.
#pragma once

#include "halogen/array/stages/contraction.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

/// Placements of a cotangent: of a sum the whole.
template <class Where>
struct whole_of_partial;
template <class M, int Rank, int... Codes>
struct whole_of_partial<Placed<M, Rank, Codes...>> {
  using type = Placed<M, Rank, (Codes == partial_code ? replicate_code : Codes)...>;
};

/// The cotangent beside the operands' pieces.
template <class Spec, class C, class A, class B>
auto cotangent_beside(const C& cotangent, const A& a, const B& b) {
  using T = typename A::value_type;
  using Where = typename contracted_place<Spec, typename FieldLeaf<A>::placed, typename FieldLeaf<B>::placed>::type;
  using Whole = typename field_of<T, typename whole_of_partial<Where>::type>::type;
  using Own = field_of_t<FieldLeaf<C>, T>;
  std::array<Cut, C::rank> cuts;
  for (int d = 0; d < C::rank; ++d) {
    const int first = Spec::value.position(Spec::value.first, Spec::value.result[d]),
              second = Spec::value.position(Spec::value.second, Spec::value.result[d]);
    cuts[static_cast<std::size_t>(d)] = first >= 0 ? a.cut(first) : b.cut(second);
  }
  const Own owed = materialised<Own>(leaf(cotangent));  // in the type that is computed in
  if constexpr (std::is_same_v<Own, Whole>)
    if (owed.cuts() == cuts) return owed;
  return redistribute_to(owed, Whole(Whole::make_shape(a.mesh(), cuts), Whole::Start::unwritten));
}

/// An operand's gradient, which the product of the cotangent and the other operand is once it is summed.
template <class E, class Product, class All>
void pull_operand(const E& e, const Product& product, All& gradients) {
  using Field = field_of_t<E, typename Product::value_type>;
  if constexpr (std::is_same_v<Product, Field>)
    backward_from(e, product, gradients);
  else
    backward_from(e, redistribute_to(product, Field(shape_of<Field>(e), Field::Start::unwritten)), gradients);
}

template <class Spec, class Target, class A, class B, class C, class All>
void pull(const Contraction<Spec, Target, A, B>& node, const C& cotangent, All& gradients) {
  using T = typename Contraction<Spec, Target, A, B>::T;
  static_assert(std::is_floating_point_v<T>, "a product of integers has no gradient");
  const auto a = product_operand<T>(std::get<0>(node.parts));
  const auto b = product_operand<T>(std::get<1>(node.parts));
  const auto owed = cotangent_beside<Spec>(cotangent, a, b);
  if constexpr (has_variable<A>)
    pull_operand(std::get<0>(node.parts), contracted<FirstGradientOf<Spec>>(owed, b, kernels::Cotangent::a), gradients);
  if constexpr (has_variable<B>)
    pull_operand(std::get<1>(node.parts), contracted<SecondGradientOf<Spec>>(a, owed, kernels::Cotangent::b),
                 gradients);
}

}  // namespace halogen::detail
