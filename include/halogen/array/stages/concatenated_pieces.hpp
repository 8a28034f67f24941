// concatenate_pieces<D>(rows, u): `rows` followed by u along dimension D, in the order of pieces. All ranks have
// `rows`. The first piece of the result begins with them, so nothing moves.
//
//   rows placed as    u placed as    result
//   Replicate         Shard<D>       Shard<D>, the first piece longer by the rows
//   as u              others         as u
//
// Other placements and meshes do not compile. All extents except that of dimension D must be equal, else there is a
// CollectiveError. Backward: the gradient of u is its part of the cotangent. The rank of the first piece has the
// gradient of the rows; a sum over the ranks that cut D gives it to all.
#pragma once

#include <string>
#include <utility>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/stages/explain_expression.hpp"

namespace halogen {
namespace detail {

/// Copies `count` of this rank's points along D from `from`, starting at its `from_first`-th point, to `to`.
template <int D, class Field, class To>
void copy_rows_along(const Field& from, index_t from_first, const To& to, index_t to_first, index_t count) {
  using T = typename Field::value_type;
  constexpr int rank = Field::rank;
  const auto whole_from = strided_view(from);
  const auto whole_to = strided_view(to);
  CopyPoints<T, rank> copy{};
  copy.from.data = whole_from.data, copy.to.data = whole_to.data;
  for (int d = 0; d < rank; ++d) {
    copy.extent[d] = d == D ? count : from.local_extent(d);
    copy.from.stride[d] = whole_from.stride[d], copy.to.stride[d] = whole_to.stride[d];
    copy.from.data += (from.offset(d) + (d == D ? from_first : 0) - whole_from.origin[d]) * whole_from.stride[d];
    copy.to.data += (to.offset(d) + (d == D ? to_first : 0) - whole_to.origin[d]) * whole_to.stride[d];
  }
  launch_range(execution_space{}, "halogen::concatenate_pieces", copy.items(), copy);
}

/// How many of the rows this rank's piece of dimension D begins with.
template <int D, class Field>
index_t rows_here(const Field& joined, index_t rows) {
  return joined.decomposition().part(joined.mesh().rank(), D) == 0 ? rows : 0;
}

}  // namespace detail

/// Made by concatenate_pieces<D>(rows, u).
template <int D, class Rows, class E>
struct ConcatenatedPieces
    : detail::FieldStage<
          ConcatenatedPieces<D, Rows, E>,
          typename detail::field_of<std::common_type_t<typename Rows::value_type, typename E::value_type>,
                                    typename E::placed>::type> {
  using Result = typename ConcatenatedPieces::Result;
  using T = typename Result::value_type;
  Rows rows;
  E inner;
  static constexpr const char* text = "concatenate_pieces, nothing moves";
  ConcatenatedPieces(Rows r, E e) : rows(std::move(r)), inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(rows, inner);
  }

  index_t extent(int d) const {
    return detail::stored_extent(inner, d) + (d == D ? detail::stored_extent(rows, D) : 0);
  }
  Result compute() const {
    const auto before = detail::materialised<detail::field_of_t<Rows, T>>(rows);
    const auto own = detail::materialised<detail::field_of_t<E, T>>(inner);
    std::array<Cut, Result::rank> cuts;
    for (int d = 0; d < Result::rank; ++d) {
      cuts[static_cast<std::size_t>(d)] = own.cut(d);
      if (d != D && before.cut(d) != own.cut(d))
        throw CollectiveError("concatenate_pieces: dimension " + std::to_string(d) + " has " +
                              std::to_string(before.extent(d)) + " points of the rows and " +
                              std::to_string(own.extent(d)) + " of the field, or other cuts: give both the same");
    }
    std::vector<index_t> sizes;
    for (int part = 0; part < own.cut(D).parts(); ++part) sizes.push_back(own.cut(D).piece(part).size());
    sizes.front() += before.extent(D);
    cuts[D] = Cut::of_sizes(sizes);
    const Result result(Result::make_shape(own.mesh(), cuts), Result::Start::unwritten);
    const index_t here = detail::rows_here<D>(result, before.extent(D));
    detail::copy_rows_along<D>(before, 0, result, 0, here);
    detail::copy_rows_along<D>(own, 0, result, here, own.local_extent(D));
    return result;
  }
};

namespace detail {

/// Whether rows are Replicate where D is cut, and have the placements of u elsewhere.
template <int D, class Rows, class Where>
inline constexpr bool lie_before = false;
template <int D, class M, int Rank, int... Rows, int... Codes>
inline constexpr bool lie_before<D, Placed<M, Rank, Rows...>, Placed<M, Rank, Codes...>> =
    D >= 0 && D < Rank && ((Rows != partial_code && (Codes < 0 || Codes == D ? Rows < 0 : Rows == Codes)) && ...);

}  // namespace detail

/// rows followed by u along dimension D. Copies both; keeps nothing.
template <int D, FieldOperand Rows, FieldOperand X>
  requires detail::lie_before<D, placed_at<Rows>, placed_at<X>>
auto concatenate_pieces(const Rows& rows, const X& u) {
  return ConcatenatedPieces<D, expression_of<Rows>, expression_of<X>>(as_expression(rows), as_expression(u));
}

}  // namespace halogen
