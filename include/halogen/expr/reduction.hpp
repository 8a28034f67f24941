// Reductions of expressions to one number: sum, mean, max, min, norm, dot. A stage of their own, one all_reduce.
#pragma once

#include <cmath>
#include <limits>

#include "halogen/expr/assign.hpp"

namespace halogen {
namespace detail {

/// How numbers become one. Sums are kept in double (integers: 64 bits), in a fixed order of rows and pieces.
struct SumOp {
  static constexpr ReduceOp over_ranks = ReduceOp::sum;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    return A(0);
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return a + b;
  }
};
struct MaxOp {
  static constexpr ReduceOp over_ranks = ReduceOp::max;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    return -Kokkos::Experimental::finite_max_v<A>;
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return b > a || b != b ? b : a;
  }
};
struct MinOp {
  static constexpr ReduceOp over_ranks = ReduceOp::min;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    return Kokkos::Experimental::finite_max_v<A>;
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return b < a || b != b ? b : a;
  }
};

template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

/// One partial result per work item of the row space.
template <class Op, class Bound, class A, int Rank>
struct ReduceRows {
  static constexpr int lanes = runs_on_host ? 8 : 1;  ///< partial results of a row, to be independent of each other
  Bound expression;
  RowSpace<Rank> space;
  A* partial;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    A lane[lanes];
    for (A& l : lane) l = Op::template start<A>();
    space.visit(i, [&](const Position& at, index_t begin, index_t end, auto checked) {
      if (begin >= end) return;
      const auto row = expression.template row<decltype(checked)::value>(at);
      index_t x = begin;
      for (; x + lanes <= end; x += lanes)
        for (int l = 0; l < lanes; ++l) lane[l] = Op::combine(lane[l], static_cast<A>(row(x + l)));
      for (; x < end; ++x) lane[0] = Op::combine(lane[0], static_cast<A>(row(x)));
    });
    A total = lane[0];
    for (int l = 1; l < lanes; ++l) total = Op::combine(total, lane[l]);
    partial[i] = total;
  }
};

}  // namespace detail

/// Scale times the reduction of E; evaluated when its value is asked for or when an expression that holds it is
/// bound. Collective. Replicate out; one all_reduce of one number over the mesh dimensions that cut the field.
template <class Op, class E, bool Mean = false>
struct Reduction : ExpressionNode<detail::Accumulator<typename E::value_type>, NotPlaced> {
  using A = detail::Accumulator<typename E::value_type>;
  using Result = std::conditional_t<Mean, double, A>;
  static constexpr bool is_mean = Mean;
  E inner;
  explicit Reduction(E e) : inner(std::move(e)) {}

  Result item() const {
    Result result{};
    bool done = false;
    inner.each_leaf({}, {}, [&](const auto& field, const Offsets&, const Edges&) {
      if (std::exchange(done, true)) return;
      result = reduce(field);
    });
    return result;
  }
  operator Result() const { return item(); }  // NOLINT: a reduction is a number

  auto bind() const { return detail::BoundConstant<Result>{item()}; }
  template <class Visit>
  void each_leaf(const Offsets&, const Edges&, Visit&&) const {}  // its own stage

 private:
  /// MPI's max and min pass over NaN, so one rank's NaN travels beside them.
  static void all_reduce(const Communicator& ranks, A& total) {
    if constexpr (Op::over_ranks == ReduceOp::sum || std::is_integral_v<A>) {
      ranks.all_reduce(&total, 1, Op::over_ranks);
    } else {
      const A sign = Op::over_ranks == ReduceOp::max ? A(1) : A(-1);
      const bool nan = total != total;
      A both[2] = {nan ? Op::template start<A>() : total, nan ? sign : A(0)};
      ranks.all_reduce(both, 2, Op::over_ranks);
      total = both[1] == sign ? std::numeric_limits<A>::quiet_NaN() : both[0];
    }
  }

  template <class Field>
  Result reduce(const Field& field) const {
    constexpr int rank = Field::rank;
    const execution_space space;
    detail::check_alike(field, inner);
    detail::exchange_halos(space, inner);
    const auto bound = inner.bind();
    auto points = detail::row_space(field, inner);
    points.piece = 4096;
    points.pieces = ceil_div(points.size[rank - 1], points.piece);
    Kokkos::View<A*, transport_space> partial(Kokkos::view_alloc("halogen::partial", Kokkos::WithoutInitializing),
                                              points.count());
    const detail::ReduceRows<Op, std::decay_t<decltype(bound)>, A, rank> kernel{bound, points, partial.data()};
    Kokkos::parallel_for("halogen::reduce",
                         Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, points.count()),
                         kernel);
    space.fence("halogen::reduce");
    A total = Op::template start<A>();
    for (std::size_t i = 0; i < partial.extent(0); ++i) total = Op::combine(total, partial(i));
    const Decomposition pieces = field.decomposition();
    unsigned mask = 0;
    for (int d = 0; d < rank; ++d) mask |= pieces.mask({d});
    all_reduce(field.mesh().communicator(mask), total);
    if constexpr (Mean) {
      double count = 1;
      for (int d = 0; d < rank; ++d) count *= static_cast<double>(field.extent(d));
      return static_cast<double>(total) / count;
    } else {
      return total;
    }
  }
};

template <class X>
inline constexpr bool is_reduction = false;
template <class Op, class E, bool Mean>
inline constexpr bool is_reduction<Reduction<Op, E, Mean>> = true;

/// Sum over all points of the global field.
template <FieldOperand X>
auto sum(const X& x) {
  return Reduction<detail::SumOp, expression_of<X>>(as_expression(x));
}
/// Sum over the global number of points.
template <FieldOperand X>
auto mean(const X& x) {
  return Reduction<detail::SumOp, expression_of<X>, true>(as_expression(x));
}
/// Largest and smallest value; NaN where there is one.
template <FieldOperand X>
auto max(const X& x) {
  return Reduction<detail::MaxOp, expression_of<X>>(as_expression(x));
}
template <FieldOperand X>
auto min(const X& x) {
  return Reduction<detail::MinOp, expression_of<X>>(as_expression(x));
}
/// sum(a * b).
template <class A, class B>
  requires detail::Joinable<A, B>
auto dot(const A& a, const B& b) {
  return sum(a * b);
}
/// Euclidean norm, a number at once.
template <FieldOperand X>
double norm(const X& x) {
  return std::sqrt(static_cast<double>(sum(square(x)).item()));
}

}  // namespace halogen
