// The arguments of a function that is differentiated, and which expressions depend on them.
#pragma once

#include "halogen/array/cumulative.hpp"
#include "halogen/array/iterate.hpp"
#include "halogen/array/reduced.hpp"
#include "halogen/array/stencil.hpp"
#include "halogen/kernels/dual.hpp"

namespace halogen {

/// The Index-th argument.
template <int Index, class Field>
struct VariableLeaf : FieldLeaf<Field> {
  static constexpr int index = Index;
  using FieldLeaf<Field>::FieldLeaf;
};

namespace detail {

template <int Index, class Field>
struct one_point<VariableLeaf<Index, Field>> : one_point<FieldLeaf<Field>> {};

template <int Index, class Field>
inline constexpr bool has_variable<VariableLeaf<Index, Field>> = true;
template <int Dim, int Offset, class E>
inline constexpr bool has_variable<Shift<Dim, Offset, E>> = has_variable<E>;
template <class E, class... B>
inline constexpr bool has_variable<Bounded<E, B...>> = has_variable<E>;
template <class F, class... A>
inline constexpr bool has_variable<Pointwise<F, A...>> = (has_variable<A> || ...);
template <class E, unsigned Mask>
inline constexpr bool has_variable<Broadcast<E, Mask>> = has_variable<E>;
template <int Dim, class E, bool Strided>
inline constexpr bool has_variable<Resliced<Dim, E, Strided>> = has_variable<E>;
template <class E, int Rank, int... Dims>
inline constexpr bool has_variable<Mapped<E, Rank, Dims...>> = has_variable<E>;
template <class Op, class E, bool Mean>
inline constexpr bool has_variable<Reduction<Op, E, Mean>> = has_variable<E>;
template <class Op, bool Mean, class E, int... Dims>
inline constexpr bool has_variable<Reduced<Op, Mean, E, Dims...>> = has_variable<E> && !std::is_same_v<Op, ArgMaxOp>;
template <int Dim, bool Reverse, class E>
inline constexpr bool has_variable<CumulativeSum<Dim, Reverse, E>> = has_variable<E>;
template <class Target, class E>
inline constexpr bool has_variable<Redistributed<Target, E>> = has_variable<E>;
template <int N, class Step, class E>
inline constexpr bool has_variable<Iterated<N, Step, E>> = has_variable<E>;
template <int Dim, class... E>
inline constexpr bool has_variable<Concatenated<Dim, E...>> = (has_variable<E> || ...);

/// One number at every point of a grid.
template <class T, class Where>
struct Filled : ExpressionNode<T, Where> {
  T value;
  std::array<index_t, max_rank> extents{};
  template <class Shape>
  Filled(T v, const Shape& shape) : value(v) {
    for (int d = 0; d < Shape::rank; ++d) extents[static_cast<std::size_t>(d)] = shape.extent(d);
  }
  index_t extent(int d) const { return extents[static_cast<std::size_t>(d)]; }
  BoundConstant<T> bind(const Offsets&) const { return {value}; }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    visit(access);
  }
};

}  // namespace detail
}  // namespace halogen
