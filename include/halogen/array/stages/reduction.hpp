// Reductions of expressions to one number: sum, mean, max, min, prod, norm, dot. Each is a stage with one all_reduce.
#pragma once

#include <cmath>
#include <limits>

#include "halogen/array/evaluate/assign.hpp"
#include "halogen/array/evaluate/signature.hpp"

namespace halogen {
namespace detail {

namespace types {
/// How numbers are reduced to one. Sums are computed in double, in a fixed order of rows and pieces. Integers are
/// summed in 64 bits, but the mean of 64-bit integers in double.
struct SumOp {
  static constexpr const char* text = "sum to a number, one all_reduce";
  static constexpr ReduceOp over_ranks = ReduceOp::sum;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    return A(0);
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return sum_of(a, b);
  }
};
/// Products are computed in double, of integers in 64 bits.
struct ProductOp {
  static constexpr const char* text = "product to a number, one all_reduce";
  static constexpr ReduceOp over_ranks = ReduceOp::product;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    return A(1);
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return product_of(a, b);
  }
};
struct MaxOp {
  static constexpr const char* text = "max to a number, one all_reduce";
  static constexpr ReduceOp over_ranks = ReduceOp::max;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    if constexpr (std::is_integral_v<A>)
      return Kokkos::Experimental::finite_min_v<A>;
    else
      return -Kokkos::Experimental::infinity_v<A>;
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return b > a || b != b ? b : a;
  }
};
struct MinOp {
  static constexpr const char* text = "min to a number, one all_reduce";
  static constexpr ReduceOp over_ranks = ReduceOp::min;
  template <class A>
  KOKKOS_FUNCTION static A start() {
    if constexpr (std::is_integral_v<A>)
      return Kokkos::Experimental::finite_max_v<A>;
    else
      return Kokkos::Experimental::infinity_v<A>;
  }
  template <class A>
  KOKKOS_FUNCTION static A combine(A a, A b) {
    return b < a || b != b ? b : a;
  }
};
}  // namespace types
using types::MaxOp;
using types::MinOp;
using types::ProductOp;
using types::SumOp;

/// The type in which values of T are summed and compared: integers in 64 bits; unsigned only if they have 64 bits
/// themselves. The sum of 64-bit integers may be out of range although their mean is in range. So the mean is summed in
/// double, as in NumPy; it is exact while no partial sum passes 2^53.
template <class T, bool Mean = false>
using Accumulator =
    std::conditional_t<!std::is_integral_v<T> || (Mean && sizeof(T) == 8), double,
                       std::conditional_t<std::is_unsigned_v<T> && sizeof(T) == 8, std::uint64_t, std::int64_t>>;

/// Independent partial results of a row that is reduced. Integers have the same sum in any order, so that the compiler
/// finds its vectors itself; with 8 of them g++ 12 sums half of the points where it widens to 64 bits (-O3, AVX-512).
template <class A>
inline constexpr int lanes_of_row = runs_on_host && !std::is_integral_v<A> ? 8 : 1;

/// One partial result per work item of the row space.
template <class Op, class Bound, class A, int Rank>
struct ReduceRows {
  static constexpr int lanes = lanes_of_row<A>;
  Bound expression;
  RowSpace<Rank> space;
  A* partial;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    A lane[lanes];
    for (A& l : lane) l = Op::template start<A>();
    space.visit(i, [&](const Position& at, index_t begin, index_t end, auto checked) {
      if (begin >= end) return;
      const auto row = expression.template row<decltype(checked)::value, Rank - 1>(at);
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

/// Memory for partial results that the host can read; kept for the next reduction of this type.
template <class A>
Kokkos::View<A*, transport_space> partial_results(index_t count) {
  using View = Kokkos::View<A*, transport_space>;
  static View& kept = *[] {
    auto* made = new View;
    caches().push_back([made] { *made = View(); });
    Kokkos::push_finalize_hook([made] { *made = View(); });
    return made;
  }();
  if (static_cast<index_t>(kept.extent(0)) < count)
    kept = View(Kokkos::view_alloc("halogen::partial", Kokkos::WithoutInitializing), count);
  return kept;
}

/// MPI's max and min ignore NaN. So `flags`, one for each value, say which values are NaN on a rank.
template <class Op, class A>
void all_reduce(const Communicator& ranks, A* values, std::size_t count) {
  if (ranks.size() == 1) return;
  if constexpr ((Op::over_ranks != ReduceOp::max && Op::over_ranks != ReduceOp::min) || std::is_integral_v<A>) {
    ranks.all_reduce(values, count, Op::over_ranks);
  } else {
    const A sign = Op::over_ranks == ReduceOp::max ? A(1) : A(-1);
    const auto both = partial_results<A>(static_cast<index_t>(2 * count));
    for (std::size_t i = 0; i < count; ++i) {
      const bool nan = values[i] != values[i];
      both(i) = nan ? Op::template start<A>() : values[i];
      both(count + i) = nan ? sign : A(0);
    }
    ranks.all_reduce(both.data(), 2 * count, Op::over_ranks);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = both(count + i) == sign ? std::numeric_limits<A>::quiet_NaN() : both(i);
  }
}

/// A reduction over all points of a grid.
template <class Op, class A, class Shape, class E>
A reduce_over(const Shape& shape, const E& expression) {
  constexpr int rank = Shape::rank;
  const execution_space space;
  const Grid<rank> grid(shape);
  const auto reads = reads_on(shape, expression);
  exchange_halos(space, grid, reads);
  const auto bound = expression.bind({});
  auto points = row_space(grid.own, reads);
  points.piece = 4096;
  points.pieces = ceil_div(points.size[rank - 1], points.piece);
  const auto partial = partial_results<A>(std::max<index_t>(points.count(), 1));
  const ReduceRows<Op, std::decay_t<decltype(bound)>, A, rank> kernel{bound, points, partial.data()};
  launch_range(space, "halogen::reduce", points.count(), kernel);
  space.fence("halogen::reduce");
  A total = Op::template start<A>();
  for (index_t i = 0; i < points.count(); ++i) total = Op::combine(total, partial(i));
  unsigned mask = 0;
  for (int d = 0; d < rank; ++d) mask |= shape.decomposition().mask({d});
  shape.agree(mask);
  all_reduce<Op>(shape.mesh().communicator(mask), &total, 1);
  return total;
}

/// The operand in double where it holds integers: of roots and exponentials.
template <class X>
auto wide(const X& x) {
  const auto e = as_expression(x);
  if constexpr (std::is_integral_v<typename std::decay_t<decltype(e)>::value_type>)
    return cast<double>(e);
  else
    return e;
}
/// The operand in To, for squares, products and deviations: the square of a float of 1e30 is no float.
template <class To = double, class X>
auto widened(const X& x) {
  const auto e = as_expression(x);
  if constexpr (std::is_same_v<typename std::decay_t<decltype(e)>::value_type, To>)
    return e;
  else
    return cast<To>(e);
}
/// Back to the operand's type; for integers the result stays double.
template <class X, class E>
auto in_type_of(const E& e) {
  using T = typename expression_of<X>::value_type;
  if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>)
    return e;
  else
    return cast<T>(e);
}

namespace types {
/// sqrt of a sum of squares. Its derivative at 0 is 0, as that of torch.linalg.norm.
struct RootOfSquares {
  static constexpr int point_cost = 8;
  template <class A>
  HALOGEN_ROW auto operator()(A a) const {
    return Kokkos::sqrt(a);
  }
  template <int, class A>
  static auto partial(const A& a) {
    return where(a == 0.0f, 0.0f, 0.5f / sqrt(a));
  }
};
}  // namespace types
using types::RootOfSquares;
template <class A>
auto root_of_squares(const A& a) {
  return halogen::apply(RootOfSquares{}, a);
}

}  // namespace detail

/// Scale times the reduction of E. It is computed once per evaluation, when its value is needed or an expression that
/// contains it is evaluated. Collective. All ranks have the result; one all_reduce of one number over the mesh
/// dimensions that cut the field.
template <class Op, class E, bool Mean = false>
struct Reduction
    : ExpressionNode<std::conditional_t<Mean, double, detail::Accumulator<typename E::value_type>>, NotPlaced> {
  using A = detail::Accumulator<typename E::value_type, Mean>;
  using Result = std::conditional_t<Mean, double, A>;
  static constexpr const char* text = Op::text;
  E inner;
  detail::StageResult<Result> identity;
  explicit Reduction(E e) : inner(std::move(e)), identity(detail::shared_result<Reduction, Result>(inner)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  Result item() const {
    return identity.get([this]() -> Result {
      const A total = detail::reduce_over<Op, A>(*detail::shape_of<detail::field_of_t<E>>(inner), inner);
      if constexpr (Mean)
        return static_cast<double>(total) / count();
      else
        return total;
    });
  }
  operator Result() const { return item(); }  // NOLINT: a reduction is a number

  /// Points of the global grid.
  double count() const {
    double points = 1;
    for (int d = 0; d < E::placed::rank; ++d) points *= static_cast<double>(std::max<index_t>(inner.extent(d), 1));
    return points;
  }

  auto bind(const Offsets&) const { return detail::BoundConstant<Result>{item()}; }
  template <class Visit>
  void each_leaf(const Access&, Visit&&) const {
    item();  // its own stage with its own halos comes before those of the expression around it
  }
};

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
/// Largest and smallest value; NaN if there is a NaN.
template <FieldOperand X>
auto max(const X& x) {
  return Reduction<detail::MaxOp, expression_of<X>>(as_expression(x));
}
template <FieldOperand X>
auto min(const X& x) {
  return Reduction<detail::MinOp, expression_of<X>>(as_expression(x));
}
/// Product over all points, as torch.prod; for integers in 64 bits.
template <FieldOperand X>
auto prod(const X& x) {
  return Reduction<detail::ProductOp, expression_of<X>>(as_expression(x));
}
/// sum(a * b), with products and their sum in double, or for integers in 64 bits.
template <class A, class B>
  requires detail::Combinable<A, B>
auto dot(const A& a, const B& b) {
  using T = std::common_type_t<typename expression_of<A>::value_type, typename expression_of<B>::value_type>;
  using Wide = detail::Accumulator<T>;
  return sum(detail::widened<Wide>(a) * detail::widened<Wide>(b));
}
/// Euclidean norm: sqrt(sum(square(x))), all in double.
template <FieldOperand X>
auto norm(const X& x) {
  return detail::root_of_squares(sum(square(detail::widened(x))));
}

}  // namespace halogen
