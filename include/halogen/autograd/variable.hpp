// The arguments of a function that is differentiated, and which expressions depend on them.
#pragma once

#include "halogen/array/expression/stencil.hpp"
#include "halogen/array/stages/argmax.hpp"
#include "halogen/array/stages/cumulative.hpp"
#include "halogen/array/stages/iterate.hpp"
#include "halogen/kernels/rows/dual.hpp"

namespace halogen {

/// The Index-th argument.
template <int Index, class Field>
struct VariableLeaf : FieldLeaf<Field> {
  static_assert(Index < detail::max_variables, "a function that is differentiated takes at most 64 arguments");
  static constexpr int index = Index;
  static constexpr detail::VariableSet variables = detail::VariableSet{1} << Index;
  using FieldLeaf<Field>::FieldLeaf;
};

namespace detail {

/// One number at every point of a grid.
template <class T, class Where>
struct Filled : ExpressionNode<T, Where> {
  T value;
  std::array<index_t, max_rank> extents{};
  template <class Shape>
  Filled(T v, const Shape& shape) : value(v) {
    for (int d = 0; d < Shape::rank; ++d) extents[static_cast<std::size_t>(d)] = shape.extent(d);
  }
  template <class F>
  auto operands(const F& f) const {
    return f();
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
