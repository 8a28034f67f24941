// flatten_pieces<A, B>(u), unflatten_pieces<A, B>(v, like): join dimensions to one and split them again, as flatten and
// unflatten, but in the order of pieces: the points of one rank come one after the other, for any cut of the
// dimensions.
//
//   u placed as        flatten_pieces<A, B>(u)   moves
//   Shard<A .. B>      Shard<A>                  nothing
//   others             the same, renumbered       nothing
//
// On one rank it is flatten. Operations that do not depend on the order of points (attention of all points to all,
// softmax, sums) have the same result on every mesh. Others (shift, cumulative sums, causal attention) see this order.
// There is no padding and no index. A point's own position is lost, so use it before the call.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/stages/explain_expression.hpp"

namespace halogen {
namespace detail {

/// The place in which dimensions A to B are one.
template <int A, int B, class Where>
struct pieces_flattened;
template <int A, int B, class M, int Rank, int... Codes>
struct pieces_flattened<A, B, Placed<M, Rank, Codes...>> {
  using type = Placed<M, Rank - (B - A), (Codes <= A ? Codes : Codes <= B ? A : Codes - (B - A))...>;
};

/// Copies this rank's points of a field to a field whose dimensions A to B are one, or back.
template <int A, int B, class Apart, class Joined>
void copy_pieces(const Apart& apart, const Joined& joined, bool back) {
  using T = typename Apart::value_type;
  constexpr int rank = Apart::rank;
  const auto flat = strided_view(joined);
  const auto whole = strided_view(apart);
  StridedView<T, rank> one{flat.data, {}, {}}, other{whole.data, {}, {}};
  CopyPoints<T, rank> copy{};
  for (int d = 0; d < Joined::rank; ++d) one.data += (joined.offset(d) - flat.origin[d]) * flat.stride[d];
  for (int d = rank; d-- > 0;) {
    const int to = d <= A ? d : d <= B ? A : d - (B - A);
    copy.extent[d] = apart.local_extent(d);
    one.stride[d] = d >= A && d < B ? one.stride[d + 1] * copy.extent[d + 1] : flat.stride[to];
    other.stride[d] = whole.stride[d];
    other.data += (apart.offset(d) - whole.origin[d]) * whole.stride[d];
  }
  const auto as_source = [](const StridedView<T, rank>& view) {
    StridedView<const T, rank> source{view.data, {}, {}};
    for (int d = 0; d < rank; ++d) source.stride[d] = view.stride[d];
    return source;
  };
  copy.from = as_source(back ? one : other);
  copy.to = back ? other : one;
  launch_range(execution_space{}, "halogen::copy_pieces", copy.items(), copy);
}

/// The cut of dimensions A to B of `apart` as one.
template <int A, int B, class Shape>
Cut cut_of_pieces(const Shape& apart) {
  const Decomposition joined = apart.decomposition().joined(A, B);
  std::vector<index_t> sizes;
  for (int part = 0; part < joined.parts(A); ++part) {
    const int rank = joined.with_part(0, A, part);
    sizes.push_back(1);
    for (int d = A; d <= B; ++d)
      sizes.back() *= apart.cuts()[static_cast<std::size_t>(d)].piece(apart.decomposition().part(rank, d)).size();
  }
  return Cut::of_sizes(sizes);
}

/// A field whose dimensions A to B are one.
template <int A, int B, class Joined, class Apart>
Joined pieces_joined(const Apart& apart) {
  std::array<Cut, Joined::rank> cuts;
  for (int d = 0; d < Joined::rank; ++d)
    cuts[static_cast<std::size_t>(d)] =
        d == A ? cut_of_pieces<A, B>(*apart.shape()) : apart.cut(d < A ? d : d + (B - A));
  const Joined joined(Joined::make_shape(apart.mesh(), cuts), Joined::Start::unwritten);
  copy_pieces<A, B>(apart, joined, false);
  return joined;
}

/// The inverse, to a field of this shape.
template <int A, int B, class Apart, class Joined>
Apart pieces_apart(const std::shared_ptr<const typename Apart::Shape>& shape, const Joined& joined) {
  const Cut needed = cut_of_pieces<A, B>(*shape);
  check_cut_as("unflatten_pieces: ", "the argument", A, joined.cut(A), "`like` in pieces", needed,
               "give what flatten_pieces made of a field that lies as `like` does");
  const Apart apart(shape, Apart::Start::unwritten);
  copy_pieces<A, B>(apart, joined, true);
  return apart;
}

template <int A, int B, class X>
inline constexpr bool has_dimensions = A >= 0 && A <= B && B < placed_at<X>::rank;

}  // namespace detail

/// Made by flatten_pieces<A, B>(expression).
template <int A, int B, class E>
struct FlattenedPieces
    : detail::FieldStage<FlattenedPieces<A, B, E>,
                         typename detail::field_of<typename E::value_type, typename detail::pieces_flattened<
                                                                               A, B, typename E::placed>::type>::type> {
  using Result = typename FlattenedPieces::Result;
  static constexpr const char* text = "flatten_pieces, nothing moves";
  E inner;
  explicit FlattenedPieces(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }

  index_t extent(int d) const {
    if (d != A) return detail::stored_extent(inner, d < A ? d : d + (B - A));
    index_t points = 1;
    for (int from = A; from <= B; ++from) points *= detail::stored_extent(inner, from);
    return points;
  }
  Result compute() const {
    return detail::pieces_joined<A, B, Result>(detail::materialised<detail::field_of_t<E>>(inner));
  }
};

/// Made by unflatten_pieces<A, B>(expression, like).
template <int A, int B, class E, class Like>
struct UnflattenedPieces
    : detail::FieldStage<UnflattenedPieces<A, B, E, Like>,
                         typename detail::field_of<typename E::value_type, typename Like::placed>::type> {
  using Result = typename UnflattenedPieces::Result;
  using Joined = detail::field_of_t<E>;
  E inner;
  Like like;
  static constexpr const char* text = "unflatten_pieces, nothing moves";
  UnflattenedPieces(E e, Like of) : inner(std::move(e)), like(std::move(of)) {}

  /// The values of `like` are not read.
  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }

  index_t extent(int d) const {
    return d >= A && d <= B ? detail::stored_extent(like, d) : detail::stored_extent(inner, d < A ? d : d - (B - A));
  }
  Result compute() const {
    const Joined joined = detail::materialised<Joined>(inner);
    std::array<Cut, Result::rank> cuts;
    const auto of_like = detail::shape_of<detail::field_of_t<Like>>(like);
    for (int d = 0; d < Result::rank; ++d)
      cuts[static_cast<std::size_t>(d)] =
          d >= A && d <= B ? of_like->cuts()[static_cast<std::size_t>(d)] : joined.cut(d < A ? d : d - (B - A));
    return detail::pieces_apart<A, B, Result>(Result::make_shape(joined.mesh(), cuts), joined);
  }
};

/// u with dimensions A to B joined to one. The result has rank - (B - A) dimensions. Copies each rank's own points;
/// keeps nothing.
template <int A, int B, FieldOperand X>
  requires detail::has_dimensions<A, B, X>
auto flatten_pieces(const X& u) {
  return FlattenedPieces<A, B, expression_of<X>>(as_expression(u));
}

/// v with dimension A split into dimensions A to B of `like`. v must have the cuts that flatten_pieces<A, B> makes of a
/// field with the shape of `like`. Other extents may differ. The values of `like` are not read. Throws CollectiveError
/// if the cuts do not fit.
template <int A, int B, FieldOperand X, FieldOperand Like>
  requires(detail::has_dimensions<A, B, Like> &&
           std::is_same_v<typename detail::pieces_flattened<A, B, placed_at<Like>>::type, placed_at<X>>)
auto unflatten_pieces(const X& v, const Like& like) {
  return UnflattenedPieces<A, B, expression_of<X>, expression_of<Like>>(as_expression(v), as_expression(like));
}

}  // namespace halogen
