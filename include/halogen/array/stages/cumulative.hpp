// cumulative_sum along a dimension, cut or not: a scan of each piece, one all_gather of the pieces' totals.
#pragma once

#include "halogen/array/expression/regrid.hpp"
#include "halogen/array/stages/reduction.hpp"

namespace halogen {
namespace detail {

/// Each work item sums one line, in double. Pass 1 (Write false) computes the piece's total; pass 2 computes the
/// running sums, starting from the total of the pieces before.
template <class Bound, class T, int Rank, int Dim, bool Reverse, bool Write>
struct ScanLines {
  using A = Accumulator<T>;
  static constexpr int lines = runs_on_host && Dim + 1 < Rank ? 64 : 1;  ///< neighbouring lines, scanned side by side
  Bound expression;
  RowSpace<Rank> space;
  StridedView<T, Rank> target;
  A* totals;  ///< one per line, row-major without Dim

  KOKKOS_FUNCTION index_t runs() const { return Dim + 1 < Rank ? (space.size[Rank - 1] + lines - 1) / lines : 1; }
  KOKKOS_FUNCTION index_t count() const {
    index_t count = runs();
    for (int d = 0; d + 1 < Rank; ++d)
      if (d != Dim) count *= space.size[d];
    return count;
  }

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    Position at{};
    index_t rest = i / runs();
    for (int d = Rank - 2; d >= 0; --d)
      if (d != Dim) {
        at[d] = space.begin[d] + rest % space.size[d];
        rest /= space.size[d];
      }
    const index_t first = space.begin[Rank - 1], size = space.size[Rank - 1];
    if constexpr (Dim + 1 == Rank) {
      const auto row = expression.template row<true, Rank - 1>(at);
      T* out = Write ? line_of<Rank - 1>(target, at) : nullptr;
      A sum = Write ? totals[i] : A(0);
      for (index_t k = 0; k < size; ++k) {
        const index_t x = Reverse ? first + size - 1 - k : first + k;
        sum = sum_of(sum, static_cast<A>(row(x)));
        if constexpr (Write) out[x] = static_cast<T>(sum);
      }
      if constexpr (!Write) totals[i] = sum;
    } else {
      const index_t x0 = first + i % runs() * lines;
      const index_t x1 = x0 + lines < first + size ? x0 + lines : first + size;
      const index_t base = i / runs() * size + (x0 - first);
      A sum[lines];
      for (index_t x = x0; x < x1; ++x) sum[x - x0] = Write ? totals[base + (x - x0)] : A(0);
      for (index_t k = 0; k < space.size[Dim]; ++k) {
        at[Dim] = space.begin[Dim] + (Reverse ? space.size[Dim] - 1 - k : k);
        const auto row = expression.template row<true, Rank - 1>(at);
        T* out = Write ? line_of<Rank - 1>(target, at) : nullptr;
        for (index_t x = x0; x < x1; ++x) {
          sum[x - x0] = sum_of(sum[x - x0], static_cast<A>(row(x)));
          if constexpr (Write) out[x] = static_cast<T>(sum[x - x0]);
        }
      }
      if constexpr (!Write)
        for (index_t x = x0; x < x1; ++x) totals[base + (x - x0)] = sum[x - x0];
    }
  }
};

/// The value type: that of the expression, but 64 bits for integers, as torch.cumsum.
template <class E>
using ScannedField = result_field_t<E, std::conditional_t<std::is_integral_v<typename E::value_type>,
                                                          Accumulator<typename E::value_type>, typename E::value_type>>;

}  // namespace detail

/// Running sums of E along Dim; Reverse from the far end. Made by cumulative_sum.
template <int Dim, bool Reverse, class E>
struct CumulativeSum : detail::FieldStage<CumulativeSum<Dim, Reverse, E>, detail::ScannedField<E>> {
  using Result = detail::ScannedField<E>;
  static constexpr int rank = E::placed::rank;
  static constexpr const char* text = "cumulative sum, one all_gather where its dimension is cut";
  E inner;
  explicit CumulativeSum(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  index_t extent(int d) const { return detail::stored_extent(inner, d); }

  Result compute() const {
    using namespace detail;
    using T = typename Result::value_type;
    using A = Accumulator<T>;
    const execution_space space;
    const auto shape = shape_of<Result>(inner);
    shape->agree(shape->decomposition().mask({Dim}));
    const Grid<rank> own(*shape);
    const auto reads = reads_on(*shape, inner);
    exchange_halos(space, own, reads);
    const Result result(shape, Result::Start::unwritten);
    const auto bound = inner.bind({});
    using Bound = std::decay_t<decltype(bound)>;
    const RowSpace<rank> points = row_space(own.own, reads);
    index_t lines = 1;
    for (int d = 0; d < rank; ++d)
      if (d != Dim) lines *= shape->owned(d).size();
    if (lines == 0) return result;
    const Communicator& ranks = shape->mesh().communicator(shape->decomposition().mask({Dim}));
    if (!ranks && shape->decomposition().parts(Dim) > 1)
      throw Error(
          "a cumulative sum along a cut dimension cannot be computed on a dry mesh: other ranks' totals are not there");
    const auto totals = partial_results<A>(lines * (ranks.size() + 1));
    Kokkos::deep_copy(space, totals, A(0));
    A* own_totals = totals.data() + static_cast<index_t>(ranks.rank()) * lines;
    const auto run = [&](auto kernel) { launch_range(space, "halogen::scan", kernel.count(), kernel); };
    A* before = totals.data() + static_cast<index_t>(ranks.size()) * lines;
    if (ranks.size() > 1) {
      run(ScanLines<Bound, T, rank, Dim, Reverse, false>{bound, points, strided_view(result), own_totals});
      space.fence("halogen::scan");
      ranks.all_gather(own_totals, static_cast<std::size_t>(lines) * sizeof(A), totals.data());
      for (int r = 0; r < ranks.size(); ++r)
        if (Reverse ? r > ranks.rank() : r < ranks.rank())
          for (index_t l = 0; l < lines; ++l)
            before[l] = sum_of(before[l], totals(static_cast<std::size_t>(r * lines + l)));
    }
    run(ScanLines<Bound, T, rank, Dim, Reverse, true>{bound, points, strided_view(result), before});
    space.fence("halogen::scan");
    return result;
  }
};

/// out[i] = sum of x[0..i] along Dim, as torch.cumsum: integers in 64 bits, else in double and rounded once. The result
/// has the placements of x. If Dim is cut, one all_gather of one number a line.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto cumulative_sum(const X& x) {
  return CumulativeSum<Dim, false, expression_of<X>>(as_expression(x));
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void cumulative_sum(const X& x) = delete;

}  // namespace halogen
