// flip and roll: the points of a dimension in another order. The dimension may be cut.
//
//   u placed as         flip<D>(u), roll<D>(u, n): placed as u, cut as u; on that mesh dimension moves
//   Shard<D>            each point at most once, one message to each rank that needs some
//   Shard<d>, d != D    nothing
//   Replicate           nothing
#pragma once

#include <string>
#include <vector>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/stages/explain_expression.hpp"
#include "halogen/halo/rearrange.hpp"

namespace halogen {

/// E with its points along Dim in the order of some runs. Made by flip and roll.
template <int Dim, class E>
struct Rearranged : detail::FieldStage<Rearranged<Dim, E>, detail::result_field_t<E>> {
  using Result = detail::result_field_t<E>;
  using Source = Result;
  static constexpr const char* text = "flip or roll, each point moves once at most where its dimension is cut";
  E inner;
  std::vector<LineRun> runs;
  Rearranged(E e, std::vector<LineRun> order) : inner(std::move(e)), runs(std::move(order)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  index_t extent(int d) const { return detail::stored_extent(inner, d); }
  Result compute() const { return rearranged(detail::materialised<Result>(inner), Dim, runs); }

  /// The runs that bring every point back.
  std::vector<LineRun> back() const {
    std::vector<LineRun> back = runs;
    for (LineRun& run : back) std::swap(run.from, run.to);
    return back;
  }
};

/// The points of dimension Dim in the opposite order, as torch.flip. Collective if Dim is cut.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto flip(const X& x) {
  const auto inner = as_expression(x);
  return Rearranged<Dim, expression_of<X>>(inner, {{0, 0, detail::stored_extent(inner, Dim), true}});
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void flip(const X& x) = delete;

/// Point i of dimension Dim becomes point i + by, as torch.roll: points that leave at one end enter at the other. `by`
/// is any whole number, the same on all ranks. Collective if Dim is cut.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto roll(const X& x, index_t by) {
  const auto inner = as_expression(x);
  const index_t extent = detail::stored_extent(inner, Dim), first = floor_mod(by, extent);
  std::vector<LineRun> runs{{0, first, extent - first}};
  if (first > 0) runs.push_back({extent - first, 0, first});
  return Rearranged<Dim, expression_of<X>>(inner, runs);
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void roll(const X& x, index_t by) = delete;

}  // namespace halogen
