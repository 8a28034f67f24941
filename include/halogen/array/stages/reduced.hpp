// Reductions over some dimensions: sum<1>(u), mean, max, min, norm over the given dimensions, argmax<1>(u). One kernel,
// then one all_reduce over the mesh dimensions that cut the reduced dimensions.
//
//   u placed as            sum<D>(u) on that mesh dimension
//   Shard<D>               Replicate (all_reduce)
//   Shard<d>, d != D       Shard<d>, or Shard<d - 1> where D < d: dimension D is gone
//   Replicate              Replicate
#pragma once

#include "halogen/array/evaluate/repeated_parts.hpp"
#include "halogen/array/expression/regrid.hpp"
#include "halogen/array/stages/reduction.hpp"

namespace halogen {

/// sum<1>(u, keep_dimensions): the result can be combined with u in an expression, as with PyTorch's keepdim=True.
struct KeepDimensions {};
inline constexpr KeepDimensions keep_dimensions;

namespace detail {

/// Which of Rank dimensions are reduced, and where the others go.
template <int Rank, int... Reduced>
struct Reduces {
  static constexpr int kept = Rank - static_cast<int>(sizeof...(Reduced));
  HALOGEN_FUNCTION static constexpr bool is_reduced(int d) { return ((d == Reduced) || ...); }
  static_assert(((Reduced >= 0 && Reduced < Rank) && ...), "a reduction names dimensions of its operand");
  static_assert(kept > 0, "to reduce all dimensions leave out their list: sum(u)");
  /// Operand dimensions that are kept, in order.
  static constexpr std::array<int, static_cast<std::size_t>(kept)> dims = [] {
    std::array<int, static_cast<std::size_t>(kept)> dims{};
    std::size_t n = 0;
    for (int d = 0; d < Rank; ++d)
      if (!is_reduced(d)) dims[n++] = d;
    return dims;
  }();
  /// Placement code of the result, from that of the operand.
  static constexpr int code(int c) {
    if (c < 0) return replicate_code;
    if (is_reduced(c)) return replicate_code;
    int position = 0;
    for (int d = 0; d < c; ++d) position += !is_reduced(d);
    return position;
  }
};

template <class Where, int... Reduced>
struct reduced_place;
template <class M, int Rank, int... Codes, int... Reduced>
struct reduced_place<Placed<M, Rank, Codes...>, Reduced...> {
  using type = Placed<M, Reduces<Rank, Reduced...>::kept, Reduces<Rank, Reduced...>::code(Codes)...>;
};

namespace types {
/// A value and its position. The first of equal values wins; NaN wins over all.
struct ArgMaxOp {};
}  // namespace types
using types::ArgMaxOp;

HALOGEN_LOOPS_BEGIN
/// Results for a run of up to `width` kept points along the last dimension, or for one kept point if the last dimension
/// is reduced. They are partial results of this rank's piece, accumulated in A.
template <class Op, class Bound, class A, int Rank, int... Reduced>
struct ReduceSome {
  using R = Reduces<Rank, Reduced...>;
  static constexpr bool last_is_kept = !R::is_reduced(Rank - 1);
  static constexpr bool is_arg = std::is_same_v<Op, ArgMaxOp>;
  static constexpr int width = last_is_kept ? (runs_on_host ? 64 : 1) : 1;
  static constexpr int lanes = last_is_kept || is_arg ? 1 : lanes_of_row<A>;

  Bound expression;
  RowSpace<Rank> space;
  A* partial;
  std::int64_t* position;  ///< of the largest value, for argmax

  /// Work items: kept points, or runs of them.
  KOKKOS_FUNCTION index_t runs() const { return last_is_kept ? (space.size[Rank - 1] + width - 1) / width : 1; }
  KOKKOS_FUNCTION index_t count() const {
    index_t count = runs();
    for (int d = 0; d + 1 < Rank; ++d)
      if (!R::is_reduced(d)) count *= space.size[d];
    return count;
  }

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    Position at{};
    index_t rest = i / runs(), inner_rows = 1;
    for (int d = Rank - 2; d >= 0; --d) {
      at[d] = space.begin[d];
      if (R::is_reduced(d)) {
        inner_rows *= space.size[d];
      } else {
        at[d] += rest % space.size[d];
        rest /= space.size[d];
      }
    }
    const index_t first = space.begin[Rank - 1];
    const index_t x0 = last_is_kept ? first + i % runs() * width : first;
    const index_t end = first + space.size[Rank - 1];
    const index_t x1 = last_is_kept && x0 + width < end ? x0 + width : end;
    A value[width * lanes];
    std::int64_t where[is_arg ? width : 1];
    for (A& v : value) v = start();
    for (std::int64_t& w : where) w = -1;
    for (index_t r = 0; r < inner_rows; ++r) {
      index_t row = r;
      for (int d = Rank - 2; d >= 0; --d)
        if (R::is_reduced(d)) {
          at[d] = space.begin[d] + row % space.size[d];
          row /= space.size[d];
        }
      bool inside = x0 >= space.inside_begin[Rank - 1] && x1 <= space.inside_end[Rank - 1];
      for (int d = 0; d + 1 < Rank; ++d)
        inside = inside && at[d] >= space.inside_begin[d] && at[d] < space.inside_end[d];
      if (inside)
        add(expression.template row<false, Rank - 1>(at), at, x0, x1, value, where);
      else
        add(expression.template row<true, Rank - 1>(at), at, x0, x1, value, where);
    }
    if constexpr (last_is_kept) {
      const index_t base = i / runs() * space.size[Rank - 1] + (x0 - first);
      for (index_t x = x0; x < x1; ++x) store(base + (x - x0), value[x - x0], where[is_arg ? x - x0 : 0]);
    } else {
      A total = value[0];
      if constexpr (!is_arg)
        for (int l = 1; l < lanes; ++l) total = Op::combine(total, value[l]);
      store(i, total, where[0]);
    }
  }

 private:
  KOKKOS_FUNCTION static A start() {
    if constexpr (is_arg)
      return MaxOp::start<A>();
    else
      return Op::template start<A>();
  }
  KOKKOS_FUNCTION void store(index_t at, A value, std::int64_t where) const {
    partial[at] = value;
    if constexpr (is_arg) position[at] = where;
  }
  template <class Row>
  KOKKOS_FUNCTION void add(const Row& row, const Position& at, index_t x0, index_t x1, A* value,
                           std::int64_t* where) const {
    if constexpr (is_arg) {
      for (index_t x = x0; x < x1; ++x) {
        const int k = last_is_kept ? static_cast<int>(x - x0) : 0;
        const A v = static_cast<A>(row(x));
        if (where[k] < 0 || v > value[k] || (v != v && value[k] == value[k])) {
          value[k] = v;
          where[k] = ((Reduced == Rank - 1 ? x : at[Reduced]) + ... + 0);  // exactly one dimension is reduced
        }
      }
    } else if constexpr (last_is_kept) {
      HALOGEN_INDEPENDENT
      for (index_t x = x0; x < x1; ++x) value[x - x0] = Op::combine(value[x - x0], static_cast<A>(row(x)));
    } else {
      index_t x = x0;
      for (; x + lanes <= x1; x += lanes)
        for (int l = 0; l < lanes; ++l) value[l] = Op::combine(value[l], static_cast<A>(row(x + l)));
      for (; x < x1; ++x) value[0] = Op::combine(value[0], static_cast<A>(row(x)));
    }
  }
};
HALOGEN_LOOPS_END

/// Writes row-major partial results into a field's piece.
template <class T, class A, int Rank>
struct StoreResults {
  StridedView<T, Rank> target;
  index_t begin[Rank], size[Rank];
  const A* values;
  double divisor;
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    index_t rest = i, offset = 0;
    for (int d = Rank - 1; d >= 0; --d) {
      offset += (begin[d] + rest % size[d] - target.origin[d]) * target.stride[d];
      rest /= size[d];
    }
    if constexpr (std::is_integral_v<T>)
      target.data[offset] = static_cast<T>(values[i]);
    else
      target.data[offset] = static_cast<T>(static_cast<double>(values[i]) / divisor);
  }
};

template <class A, class Field>
void store_results(const execution_space& space, const Field& field, const A* values, double divisor) {
  StoreResults<typename Field::value_type, A, Field::rank> kernel{strided_view(field), {}, {}, values, divisor};
  index_t count = 1;
  for (int d = 0; d < Field::rank; ++d) {
    kernel.begin[d] = field.owned(d).begin;
    kernel.size[d] = field.owned(d).size();
    count *= kernel.size[d];
  }
  launch_range(space, "halogen::store", count, kernel);
}

/// The dimensions (bits) of the result in which E has one point.
template <class E, class Kept>
constexpr unsigned kept_single() {
  unsigned single = 0;
  for (std::size_t d = 0; d < Kept::dims.size(); ++d)
    single |= (one_point<E>::single >> static_cast<unsigned>(Kept::dims[d]) & 1u) << d;
  return single;
}

/// The value type: that of the expression; indices for argmax, 64 bits for sums of integers, double for means of
/// integers.
template <class Op, bool Mean, class E, int... Reduced>
using ReducedField = typename field_with_single<
    std::conditional_t<std::is_same_v<Op, ArgMaxOp> || std::is_integral_v<typename E::value_type>,
                       std::conditional_t<Mean, double,
                                          std::conditional_t<std::is_same_v<Op, ArgMaxOp>, std::int64_t,
                                                             Accumulator<typename E::value_type>>>,
                       typename E::value_type>,
    typename reduced_place<typename E::placed, Reduced...>::type,
    kept_single<E, Reduces<E::placed::rank, Reduced...>>()>::type;

}  // namespace detail

/// The field that remains when dimensions Dims of E are reduced; made by sum<...>, mean<...>, max<...>, min<...>,
/// argmax<...>. Sums are computed in double and rounded once.
template <class Op, bool Mean, class E, int... Dims>
struct Reduced : detail::FieldStage<Reduced<Op, Mean, E, Dims...>, detail::ReducedField<Op, Mean, E, Dims...>> {
  using Base = detail::FieldStage<Reduced, detail::ReducedField<Op, Mean, E, Dims...>>;
  using Result = typename Base::Result;
  using A = detail::Accumulator<typename E::value_type, Mean>;
  static constexpr int rank = E::placed::rank;
  using Kept = detail::Reduces<rank, Dims...>;
  static constexpr const char* text = std::is_same_v<Op, detail::ArgMaxOp>
                                          ? "argmax over a dimension, two all_reduces where it is cut"
                                          : "reduction over some dimensions, one all_reduce where they are cut";
  E inner;
  explicit Reduced(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  /// Reductions of equal operands are equal.
  void sign(detail::Signature&) const {}

  index_t extent(int d) const { return detail::stored_extent(inner, Kept::dims[static_cast<std::size_t>(d)]); }

  /// The number of points of a mean, by which the sum is divided.
  double divisor() const {
    if constexpr (Mean)
      return (static_cast<double>(detail::stored_extent(inner, Dims)) * ...);
    else
      return 1;
  }

  Result compute() const {
    using namespace detail;
    const execution_space space;
    const auto shape = shape_of<field_of_t<E>>(inner);
    shape->agree(shape->decomposition().mask({Dims...}));
    const Grid<rank> own(*shape);
    const auto reads = reads_on(*shape, inner);
    exchange_halos(space, own, reads);
    std::array<Cut, Kept::kept> cuts;
    index_t count = 1;
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      cuts[d] = shape->cut(Kept::dims[d]);
      count *= shape->owned(Kept::dims[d]).size();
    }
    const Result result(Result::make_shape(shape->mesh(), cuts), Result::Start::unwritten);
    const auto bound = inner.bind({});  // on all ranks, because it may contain reductions
    if (count == 0) return result;      // as on all ranks that share this piece

    constexpr bool is_arg = std::is_same_v<Op, ArgMaxOp>;
    constexpr bool side_by_side = std::is_same_v<A, std::int64_t>;  // one memory for all of a type
    const auto values = partial_results<A>(is_arg && side_by_side ? 2 * count : count);
    std::int64_t* positions = nullptr;
    if constexpr (is_arg && side_by_side)
      positions = values.data() + count;
    else if constexpr (is_arg)
      positions = partial_results<std::int64_t>(count).data();
    const ReduceSome<Op, std::decay_t<decltype(bound)>, A, rank, Dims...> kernel{bound, row_space(own.own, reads),
                                                                                 values.data(), positions};
    launch_range(space, "halogen::reduce", kernel.count(), kernel);
    space.fence("halogen::reduce");
    const Communicator& ranks = shape->mesh().communicator(shape->decomposition().mask({Dims...}));
    const auto points = static_cast<std::size_t>(count);
    if constexpr (is_arg) {
      first_of_largest(ranks, values.data(), positions, points);
      store_results(space, result, positions, 1);
    } else {
      all_reduce<Op>(ranks, values.data(), points);
      store_results(space, result, values.data(), divisor());
    }
    space.fence("halogen::store");  // the next reduction uses the memory of the values
    return result;
  }

 private:
  /// From every rank's largest values, finds the first position of the largest of all, by two small all_reduces.
  static void first_of_largest(const Communicator& ranks, A* values, std::int64_t* positions, std::size_t count) {
    if (ranks.size() == 1) return;
    std::vector<A> own(values, values + count);
    detail::all_reduce<detail::MaxOp>(ranks, values, count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool largest = own[i] == values[i] || (own[i] != own[i] && values[i] != values[i]);
      if (!largest || positions[i] < 0) positions[i] = std::numeric_limits<std::int64_t>::max();
    }
    ranks.all_reduce(positions, count, ReduceOp::min);
  }
};

namespace detail {

template <class Op, bool Mean, int... Dims, class X>
auto reduce_dims(const X& x) {
  return Reduced<Op, Mean, expression_of<X>, Dims...>(as_expression(x));
}

/// An expression with the grid of the reduced node R, mapped back to the dimensions that R kept.
template <class R, class E>
auto along_kept(const E& e) {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return Mapped<E, R::rank, R::Kept::dims[D]...>(e);
  }(std::make_index_sequence<R::Kept::dims.size()>{});
}
template <class R, class Node>
auto keep(const Node& node) {
  return along_kept<R>(as_expression(node));
}
template <class Op, bool Mean, class X, int... Dims>
using reduce_dims_t = Reduced<Op, Mean, expression_of<X>, Dims...>;

}  // namespace detail

#define HALOGEN_REDUCED(function, Op, Mean)                                                                       \
  template <int First, int... Dims, FieldOperand X>                                                               \
  auto function(const X& x) {                                                                                     \
    return detail::behind_record(detail::reduce_dims<detail::Op, Mean, First, Dims...>(x));                       \
  }                                                                                                               \
  template <int First, int... Dims, FieldOperand X>                                                               \
  auto function(const X& x, KeepDimensions) {                                                                     \
    return detail::keep<detail::reduce_dims_t<detail::Op, Mean, X, First, Dims...>>(function<First, Dims...>(x)); \
  }

HALOGEN_REDUCED(sum, SumOp, false)
HALOGEN_REDUCED(mean, SumOp, true)
HALOGEN_REDUCED(max, MaxOp, false)
HALOGEN_REDUCED(min, MinOp, false)
HALOGEN_REDUCED(prod, ProductOp, false)
#undef HALOGEN_REDUCED

/// Squares, their sum and its root are computed in double and rounded once.
template <int First, int... Dims, FieldOperand X>
auto norm(const X& x) {
  return detail::in_type_of<X>(detail::root_of_squares(sum<First, Dims...>(square(detail::widened(x)))));
}
template <int First, int... Dims, FieldOperand X>
auto norm(const X& x, KeepDimensions) {
  return detail::in_type_of<X>(
      detail::root_of_squares(sum<First, Dims...>(square(detail::widened(x)), keep_dimensions)));
}

/// The index along Dim of the largest value, as torch.argmax. The first of equal values wins; NaN counts as largest.
template <int Dim, FieldOperand X>
auto argmax(const X& x) {
  return detail::reduce_dims<detail::ArgMaxOp, false, Dim>(x);
}
template <int Dim, FieldOperand X>
auto argmax(const X& x, KeepDimensions) {
  return detail::keep<detail::reduce_dims_t<detail::ArgMaxOp, false, X, Dim>>(argmax<Dim>(x));
}

}  // namespace halogen
