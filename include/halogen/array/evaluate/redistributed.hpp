// Stages that move data on request: redistribute and concatenate of expressions.
#pragma once

#include <tuple>

#include "halogen/array/evaluate/assign.hpp"
#include "halogen/array/expression/regrid.hpp"
#include "halogen/halo/copy_block.hpp"
#include "halogen/halo/redistribute.hpp"

namespace halogen {
namespace detail {

/// The place with Code for the mesh dimensions that cut D.
template <int D, int Code, class Where>
struct placed_instead;
template <int D, int Code, class M, int Rank, int... Codes>
struct placed_instead<D, Code, Placed<M, Rank, Codes...>> {
  using type = Placed<M, Rank, (Codes == D ? Code : Codes)...>;
};

/// The dimensions except Dim in which all have one point.
template <int Dim, class... E>
inline constexpr unsigned single_beside = (~(1u << Dim) & ... & one_point<E>::single);

/// The expression as a field of this type: the field itself, the field of a stage, or one that is computed now.
template <class Field, class E>
Field materialised(const E& expression) {
  const EvaluationScope scope;
  if constexpr (requires { expression.inner.field; }) {
    if constexpr (std::is_same_v<std::decay_t<decltype(expression.inner.field)>, Field>) return expression.inner.field;
  }
  if constexpr (requires { typename std::decay_t<decltype(expression.inner)>::stage_tag; }) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(expression.inner)>::Result, Field>)
      return expression.inner.field();
  }
  return computed<Field>(shape_of<Field>(expression), expression);
}

}  // namespace detail

/// The values of a stage's operand as a field of this type, at once: the field itself, a stage's result, or what one
/// kernel computes. Collective.
template <class Field, Expression E>
Field as_field(const E& operand) {
  return detail::materialised<Field>(operand);
}

/// E with the placements of Target, on E's mesh, cut as by torch.chunk; made by redistribute<Target>(expression).
/// keeps_cuts: dimensions with as many pieces as before keep their cuts. Made by cut_as, it has mesh and cuts of
/// `like`.
template <class Target, class E>
struct Redistributed : detail::FieldStage<Redistributed<Target, E>, Target> {
  using Source = detail::field_of_t<E, typename Target::value_type>;
  static constexpr const char* text = "redistribute";
  E inner;
  bool keeps_cuts = false;
  std::shared_ptr<const typename Target::Shape> like;
  explicit Redistributed(E e) : inner(std::move(e)) { detail::check_width<typename Target::value_type>(inner); }

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  index_t extent(int d) const { return detail::stored_extent(inner, d); }
  Target compute() const {
    const Source source = detail::materialised<Source>(inner);
    if (like != nullptr) return redistribute_to(source, Target(like, Target::Start::unwritten));
    if (!keeps_cuts) return redistribute<Target>(source);
    const Decomposition pieces(source.mesh().extents(), Target::placements, Target::mesh_type::names);
    auto cuts = source.cuts();
    for (int d = 0; d < Target::rank; ++d)
      if (Cut& cut = cuts[static_cast<std::size_t>(d)]; cut.parts() != pieces.parts(d))
        cut = Cut::chunk(cut.extent(), pieces.parts(d));
    return redistribute_to(source, Target(Target::make_shape(source.mesh(), cuts), Target::Start::unwritten));
  }
};

/// An expression with other placements. The table of halo/redistribute.hpp says what moves, once per evaluation.
template <class Target, Expression E>
  requires(is_sharded<Target> && Target::rank == E::placed::rank)
auto redistribute(const E& expression) {
  using Inner = expression_of<E>;
  return Redistributed<Target, Inner>(as_expression(expression));
}

/// e with the mesh, the placements and the cuts of `like`, a field or an expression of the same extents: once per
/// evaluation it is computed where it lies and moved, as by redistribute_to. e keeps its value type; its gradient is
/// moved back. Throws CollectiveError if the extents differ.
template <FieldOperand E, FieldOperand Like>
  requires(placed_at<E>::rank == placed_at<Like>::rank)
auto cut_as(const E& e, const Like& like) {
  using Inner = expression_of<E>;
  using Target = typename detail::field_of<typename Inner::value_type, typename expression_of<Like>::placed>::type;
  detail::require_made("cut_as", e), detail::require_made("cut_as", like);
  Redistributed<Target, Inner> moved(as_expression(e));
  moved.like = detail::shape_of<Target>(as_expression(like));
  for (int d = 0; d < Target::rank; ++d)
    detail::joint_extent(d, detail::stored_extent(moved.inner, d), moved.like->extent(d));
  return moved;
}
template <FieldOperand E, FieldOperand Like,
          class Why = why::operands_differ_in_rank<placed_at<E>::rank, placed_at<Like>::rank>>
  requires(placed_at<E>::rank != placed_at<Like>::rank)
void cut_as(const E& e, const Like& like) = delete;

/// Fields one after the other along Dim; made by concatenate.
template <int Dim, class... E>
struct Concatenated
    : detail::FieldStage<
          Concatenated<Dim, E...>,
          typename detail::field_with_single<std::common_type_t<typename E::value_type...>, detail::placed_of<E...>,
                                             detail::single_beside<Dim, E...>>::type> {
  using Result = typename Concatenated::FieldStage::Result;
  static constexpr int rank = Result::rank;
  using Source = Result;
  static constexpr const char* text = "concatenate, each point moves once at most";
  std::tuple<E...> parts;

  explicit Concatenated(E... e) : parts(std::move(e)...) {
    for (int d = 0; d < rank; ++d)
      if (d != Dim)
        std::apply(
            [d](const auto& first, const auto&... e) {
              (detail::joint_extent(d, detail::stored_extent(first, d), detail::stored_extent(e, d)), ...);
            },
            parts);
  }

  index_t extent(int d) const {
    if (d != Dim) return detail::stored_extent(std::get<0>(parts), d);
    return std::apply([](const E&... e) { return (detail::stored_extent(e, Dim) + ...); }, parts);
  }
  template <class F>
  auto operands(const F& f) const {
    return std::apply(f, parts);
  }
  static constexpr int static_extent(int d) {
    const int extents[] = {detail::static_extent<E>(d)...};
    int extent = d == Dim ? 0 : dyn;
    for (const int one : extents) {
      if (d == Dim)
        extent = extent == dyn || one == dyn ? dyn : extent + one;
      else if (one != dyn)
        extent = one;
    }
    return extent;
  }

  Result compute() const {
    const auto first = detail::shape_of<Result>(std::get<0>(parts));
    std::array<Cut, rank> cuts = first->cuts();
    cuts[Dim] = Cut::chunk(extent(Dim), first->decomposition().parts(Dim));
    const Result result(Result::make_shape(first->mesh(), cuts), Result::Start::unwritten);
    typename Result::Extents from{}, to{}, count{};
    const auto add = [&](const auto& part) {
      const Result field = detail::materialised<Result>(part);
      for (int d = 0; d < rank; ++d) count[static_cast<std::size_t>(d)] = field.extent(d);
      copy_block(field, result, from, to, count);
      to[Dim] += field.extent(Dim);
    };
    std::apply([&](const E&... e) { (add(e), ...); }, parts);
    return result;
  }
};

/// Fields of one placement joined along Dim, as torch.cat. Along a dimension that is cut each point moves once, to the
/// rank of its chunk in the result. Along other dimensions nothing is sent. Throws CollectiveError if other extents
/// differ.
template <int Dim, FieldOperand... X>
  requires(sizeof...(X) > 0 && detail::Joinable<X...> && (detail::HasDimension<Dim, X> && ...))
auto concatenate(const X&... x) {
  return Concatenated<Dim, expression_of<X>...>(as_expression(x)...);
}
template <int Dim, FieldOperand A, FieldOperand B, class Why = detail::WhyNotJoined<A, B>>
  requires detail::Unjoinable<A, B>
void concatenate(const A& a, const B& b) = delete;

}  // namespace halogen
