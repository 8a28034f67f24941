// argmax of a whole field: the row-major global index of its largest value.
#pragma once

#include <limits>

#include "halogen/array/stages/reduced.hpp"

namespace halogen {

/// The row-major global index of the largest value of E. The first of equal values wins; NaN counts as largest. Like a
/// Reduction it is a number, computed once per evaluation. Collective; two all_reduces. It has no gradient.
template <class E>
struct ArgMax : ExpressionNode<std::int64_t, NotPlaced> {
  static constexpr const char* text = "argmax to an index, two all_reduces";
  E inner;
  detail::StageResult<std::int64_t> identity;
  explicit ArgMax(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }

  std::int64_t item() const {
    return identity.get([this] { return first(std::make_index_sequence<static_cast<std::size_t>(rank)>{}); });
  }
  operator std::int64_t() const { return item(); }  // NOLINT: an index is a number

  detail::BoundConstant<std::int64_t> bind(const Offsets&) const { return detail::BoundConstant<std::int64_t>{item()}; }
  template <class Visit>
  void each_leaf(const Access&, Visit&&) const {
    item();
  }

 private:
  static constexpr int rank = E::placed::rank;

  template <std::size_t... D>
  std::int64_t first(std::index_sequence<D...>) const {
    const auto largest = max(inner).item();
    std::array<index_t, rank> stride{};
    index_t product = 1;
    for (int d = rank - 1; d >= 0; --d) {
      stride[static_cast<std::size_t>(d)] = product;
      product *= detail::stored_extent(inner, d);
    }
    const auto index = ((global_index<static_cast<int>(D)>(inner) * stride[D]) + ...);
    return min(where(inner == largest || inner != inner, index, std::numeric_limits<index_t>::max())).item();
  }
};

/// The row-major global index of the largest value: torch.argmax of the whole field.
template <FieldOperand X>
auto argmax(const X& x) {
  return ArgMax<expression_of<X>>(as_expression(x));
}

}  // namespace halogen
