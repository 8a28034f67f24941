// iterate<N>: N steps of a stencil with one exchange of N times its radius. Each rank also computes the points around
// its piece that later steps read, a radius fewer in every step. So N messages become one.
#pragma once

#include <tuple>

#include "halogen/array/evaluate/redistributed.hpp"

namespace halogen {
namespace detail {

/// The result of a step: one expression, or a tuple of expressions. A step also computes points of other ranks, where a
/// stored part has no values. So parts that the library has stored are computed in the kernel again.
template <class X>
auto as_tuple(const X& x) {
  return std::tuple(without_repeated(as_expression(x)));
}
template <class... X>
auto as_tuple(const std::tuple<X...>& x) {
  return std::apply([](const X&... one) { return std::tuple(without_repeated(as_expression(one))...); }, x);
}

template <class... E>
constexpr bool any_variable(const std::tuple<E...>*) {
  return (has_variable<E> || ...);
}

/// N steps of a system of fields on one grid.
template <int Steps, class Step, class... Fields>
class DeepHalo {
  using First = std::tuple_element_t<0, std::tuple<Fields...>>;
  static constexpr int rank = First::rank;
  static_assert(((Fields::rank == rank) && ...), "iterate takes fields of one grid");
  using All = std::index_sequence_for<Fields...>;
  using StepReads = ReadFields<typename First::Shape>;

 public:
  DeepHalo(Step& step, const Fields&... fields) : step_(step), now_(fields...) {}

  std::tuple<Fields...> run() {
    const EvaluationScope scope;
    find_radius();
    const Reach<rank> grown = radius_times(Steps);
    const execution_space space;
    std::apply([&](const Fields&... field) { (fill(field, grown, FillMargins{space}), ...); }, now_);
    for (int done = 1; done <= Steps; ++done) advance(space, radius_times(Steps - done));
    return now_;
  }

  /// Calls use(field, reach or needs) for every exchange of a run, without doing the exchange.
  template <class Use>
  void each_exchange(const Use& use) {
    const EvaluationScope scope;
    find_radius();
    const Reach<rank> grown = radius_times(Steps);
    std::apply([&](const Fields&... field) { (fill(field, grown, use), ...); }, now_);
    for (int done = 1; done <= Steps; ++done)
      each_other_exchange<Use>(next(), Grid<rank>(shape(), radius_times(Steps - done)), use);
  }

 private:
  auto next() {
    auto expressions = std::apply([&](const Fields&... field) { return as_tuple(step_(field...)); }, now_);
    static_assert(std::tuple_size_v<decltype(expressions)> == sizeof...(Fields),
                  "iterate: the step returns as many expressions as it takes fields");
    static_assert(!any_variable(static_cast<const decltype(expressions)*>(nullptr)),
                  "iterate: its gradient is that of the field it starts from, and this step holds another variable: "
                  "write the steps one after the other");
    return expressions;
  }
  template <class Expressions, class F>
  static void each(const Expressions& expressions, F f) {
    std::apply([&](const auto&... e) { (f(e), ...); }, expressions);
  }
  const typename First::Shape& shape() const { return *std::get<0>(now_).shape("iterate"); }
  bool is_state(const void* storage) const {
    return std::apply([&](const Fields&... field) { return ((&field.storage() == storage) || ...); }, now_);
  }

  void find_radius() {
    check_fields();
    const auto expressions = next();
    each(expressions, [&](const auto& e) { widen_radius(reads_on(shape(), e)); });
    each(expressions, [&](const auto& e) { check_others(reads_on(shape(), e)); });
  }

  /// How far one step reads its own fields, and the dimensions in which they are periodic.
  void widen_radius(const StepReads& reads) {
    for (const auto& read : reads) {
      const Access& access = read.access;
      if (!is_state(read.storage)) continue;
      if (!access.is_shift(rank) || access.regridded)
        throw CollectiveError(
            "iterate: the step reads its own field through a slice, a pad or a permutation; a step of shifts only can "
            "share one exchange");
      for (std::size_t d = 0; d < rank; ++d) {
        radius_.lo[d] = std::max(radius_.lo[d], -access.offset[d]);
        radius_.hi[d] = std::max(radius_.hi[d], access.offset[d]);
        if (has_images(access.edge[d])) {  // images show points equally far inside
          radius_.lo[d] = std::max(radius_.lo[d], access.offset[d]);
          radius_.hi[d] = std::max(radius_.hi[d], -access.offset[d]);
        }
        radius_.periodic[d] = radius_.periodic[d] || (access.periodic(d) && access.offset[d] != 0);
      }
    }
  }
  /// All fields have one shape. Each is read and written at the points of the first one.
  void check_fields() const {
    std::apply([&](const Fields&... field) { (check_field(*field.shape("iterate")), ...); }, now_);
  }
  void check_field(const typename First::Shape& other) const {
    for (int d = 0; d < rank; ++d)
      if (other.extent(d) != shape().extent(d))
        throw CollectiveError("iterate: its fields have " + std::to_string(shape().extent(d)) + " and " +
                              std::to_string(other.extent(d)) + " points in dimension " + std::to_string(d) +
                              ": give them the same extents");
    if (!(other == shape()))
      throw CollectiveError(
          "iterate: its fields lie on different meshes or are cut differently: redistribute_to(one, the other)");
  }

  /// The image of a point beyond a periodic end is one period of the state away, for all fields that are read.
  void check_others(const StepReads& reads) const {
    if (Steps == 1) return;  // no images are evaluated
    for (const auto& read : reads)
      for (int d = 0; d < read.dimensions(); ++d) {
        const int source = read.source(d);
        if (source < 0 || !radius_.periodic[static_cast<std::size_t>(source)]) continue;
        const auto i = static_cast<std::size_t>(d);
        if (has_images(read.access.edge[i]) && read.access.offset[i] != 0)
          throw CollectiveError("iterate: along dimension " + std::to_string(source) +
                                ", where the step's own field is periodic, it reads a field with Reflect, Odd "
                                "or ReplicateEdge at a distance: give that one Periodic, or iterate one step");
        if (read.access.scale[i] == 1 && read.access.divisor[i] == 1 && read.cut(d).extent() == shape().extent(source))
          continue;
        throw CollectiveError(
            "iterate: along dimension " + std::to_string(source) + ", where the step's own field of " +
            std::to_string(shape().extent(source)) + " points is periodic, it reads a part of a field of " +
            std::to_string(read.cut(d).extent()) + " through a slice or a pad: assign that part to a field before");
      }
  }

  Reach<rank> radius_times(index_t steps) const {
    Reach<rank> reach = radius_;
    for (std::size_t d = 0; d < rank; ++d) {
      reach.lo[d] *= steps;
      reach.hi[d] *= steps;
    }
    return reach;
  }

  template <class Field, class Use>
  static void fill(const Field& field, const Reach<rank>& reach, const Use& use) {
    if (!(reach == Reach<rank>{})) use(field, reach);
  }

  /// The exchanges of other fields that the step reads.
  template <class Use, class Expressions>
  void each_other_exchange(const Expressions& expressions, const Grid<rank>& grid, const Use& use) const {
    each(expressions, [&](const auto& e) {
      ReadFields<typename First::Shape, Use>(e).each_exchange(
          grid, [&](const void* storage) { return is_state(storage); }, use);
    });
  }

  /// One step on the owned points and `grown` more points. All fields are computed from their values before the step.
  void advance(const execution_space& space, const Reach<rank>& grown) {
    const EvaluationScope scope;
    const auto expressions = next();
    const Grid<rank> grid(shape(), grown);
    each_other_exchange<FillMargins>(expressions, grid, {space});
    std::tuple<Fields...> after = now_;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (compute(space, grid, std::get<I>(after), std::get<I>(expressions)), ...);
    }(All{});
    now_ = after;
  }

  template <class Field, class E>
  void compute(const execution_space& space, const Grid<rank>& grid, Field& field, const E& expression) {
    static_assert(AssignableTo<Field, E>, "iterate: a step keeps the placement of its fields");
    check_width<typename Field::value_type>(expression);
    auto buffer = field.take_buffer();
    Field result(field);
    result.rebind(buffer);
    std::array<Margin, rank> margins;
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      margins[i] = {field.owned(d).begin - grid.own.side[i].begin, grid.own.side[i].end - field.owned(d).end};
    }
    result.reserve_margin(margins);
    expression.bind({});  // computes its reductions, also on ranks without points
    launch_images(space, strided_view(result), grid, expression, StepReads(expression));
    field = result;
  }

  /// The points beyond a periodic end are images: boundaries and coordinates are evaluated at the points that they
  /// show.
  template <class T, class E>
  void launch_images(const execution_space& space, const StridedView<T, rank>& target, const Grid<rank>& grid,
                     const E& expression, const StepReads& reads, Box<rank> box = {}, Offsets image = {}, int d = 0) {
    if (d == 0) box = grid.own;
    if (d == rank) return launch_assign(space, target, box, expression, reads, image);
    const auto i = static_cast<std::size_t>(d);
    const index_t extent = grid.cut[i]->extent();
    const Interval own = grid.own.side[i];
    if (own.empty()) return;
    for (index_t side = floor_div(own.begin, extent); side * extent < own.end; ++side) {
      box.side[i] = intersect(own, {side * extent, (side + 1) * extent});
      if (box.side[i].empty()) continue;
      image[i] = -side * extent;
      launch_images(space, target, grid, expression, reads, box, image, d + 1);
    }
  }

  Step& step_;
  std::tuple<Fields...> now_;
  Reach<rank> radius_;
};

}  // namespace detail

/// E after N steps; made by iterate<N>(step, expression).
template <int N, class Step, class E>
struct Iterated : detail::FieldStage<Iterated<N, Step, E>, detail::field_of_t<E>> {
  using Result = detail::field_of_t<E>;
  using Source = Result;
  static constexpr const char* text = "iterate, one deep exchange";
  Step step;
  E inner;
  Iterated(Step f, E e) : step(f), inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  index_t extent(int d) const { return detail::stored_extent(inner, d); }
  Result compute() const {
    Step f = step;
    return std::get<0>(detail::DeepHalo<N, Step, Result>(f, detail::materialised<Result>(inner)).run());
  }
};

/// The fields after N steps, equal to the bit to N single steps; they need 1/N of the messages. step takes the fields
/// and returns one expression, or a tuple of as many expressions:
///
///   u = hg::iterate<4>([](auto u) { return diffuse(hg::with_boundary<hg::Zero, hg::Periodic>(u)); }, u);
///   std::tie(h, v) = hg::iterate<8>([](auto h, auto v) { return std::tuple(h - dt * ..., v - dt * ...); }, h, v);
///
/// Collective; the result has the placements of the fields. Other fields that the step reads are exchanged as usual.
template <int N, class Step, class Field>
  requires(N >= 1 && is_sharded<Field>)
Field iterate(Step step, const Field& field) {
  return std::get<0>(detail::DeepHalo<N, Step, Field>(step, field).run());
}
/// The same for an expression or a variable. It is a stage and differentiable (autograd/backward.hpp).
template <int N, class Step, FieldOperand E>
  requires(!is_sharded<E>)
auto iterate(Step step, const E& expression) {
  return Iterated<N, Step, expression_of<E>>(step, as_expression(expression));
}
template <int N, class Step, class... Fields>
  requires(N >= 1 && sizeof...(Fields) > 1 && (is_sharded<Fields> && ...))
std::tuple<Fields...> iterate(Step step, const Fields&... fields) {
  return detail::DeepHalo<N, Step, Fields...>(step, fields...).run();
}

}  // namespace halogen
