// Broadcasting: if an operand has one point along a dimension and the others have more, its value is the same at all
// their points. Static extents of 1 broadcast automatically (u * v of Tensor<T, dyn, dyn> and Tensor<T, 1, dyn>). For
// an extent of 1 that is known only at run time write u * expand<0>(v). Nothing moves: along a mesh dimension that cuts
// the others, v is Replicate.
#pragma once

#include "halogen/array/expression/windowed.hpp"

namespace halogen {
namespace detail {

constexpr bool names_dimension(unsigned mask, int d) { return d >= 0 && (mask >> d & 1u) != 0; }

template <class B, unsigned Mask>
struct BoundBroadcast {
  B inner;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(Position at) const {
    constexpr bool same_for_all = Axis >= 0 && (Mask >> (Axis < 0 ? 0 : Axis) & 1u) != 0;
    for (int d = 0; d < max_rank; ++d)
      if ((Mask >> d & 1u) != 0) at[d] = 0;
    return inner.template row < Checked, same_for_all ? -1 : Axis > (at);
  }
};

template <class Where>
struct whole_where_others_are_cut;
template <class M, int Rank, int... Codes>
struct whole_where_others_are_cut<Placed<M, Rank, Codes...>> {
  using type = Placed<M, Rank, (Codes < 0 ? any_code : Codes)...>;
};

}  // namespace detail

/// E, which has one point along the dimensions of Mask, broadcast to the extents of the other operands.
template <class E, unsigned Mask>
struct Broadcast
    : ExpressionNode<typename E::value_type, typename detail::whole_where_others_are_cut<typename E::placed>::type> {
  static constexpr bool is_transparent = true;
  E inner;
  detail::NodeIdentity identity;
  explicit Broadcast(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  template <class Other>
  auto with_operands(Other other) const {
    return Broadcast<Other, Mask>(std::move(other));
  }
  void sign(detail::Signature&) const {}
  static constexpr int source_dimension(int d) { return detail::names_dimension(Mask, d) ? detail::same_points : d; }

  index_t extent(int d) const { return detail::names_dimension(Mask, d) ? -1 : inner.extent(d); }
  std::optional<Cut> cut(int d) const {
    const std::optional<Cut> cut = detail::names_dimension(Mask, d) ? std::nullopt : inner.cut(d);
    return cut && cut->parts() > 1 ? cut : std::nullopt;
  }
  auto bind(Offsets image) const {
    for (std::size_t d = 0; d < image.size(); ++d)
      if (detail::names_dimension(Mask, static_cast<int>(d))) image[d] = 0;
    return detail::BoundBroadcast<decltype(inner.bind(image)), Mask>{inner.bind(image)};
  }
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    for (std::size_t d = 0; d < access.source.size(); ++d)
      if (detail::names_dimension(Mask, static_cast<int>(d))) access.fix(d, 0);
    inner.each_leaf(access, visit);
  }
};

namespace detail {

/// Dimensions in which all operands have one point.
template <class... X>
inline constexpr unsigned common_single = (~0u & ... & one_point<expression_of<X>>::single);

template <unsigned Mask, class E>
auto broadcast_over(E e) {
  if constexpr (Mask == 0)
    return e;
  else
    return Broadcast<E, Mask>(std::move(e));
}
/// An operand together with others that have one point only in the dimensions of Common.
template <unsigned Common, class X>
auto broadcast_beside(X x) {
  using Points = one_point<expression_of<X>>;
  return broadcast_over<Points::single & ~Points::open & ~Common>(as_expression(std::move(x)));
}
template <unsigned Common, class X>
using broadcast_of = decltype(broadcast_beside<Common>(std::declval<X>()));

}  // namespace detail
}  // namespace halogen
