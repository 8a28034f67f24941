// Boxes of points of an array of any number of dimensions, in the order of its rows.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"

namespace halogen::detail {

/// A box of points: where it begins and how far it goes.
struct PointBox {
  std::vector<index_t> begin, extent;
  bool operator==(const PointBox&) const = default;

  index_t points() const {
    index_t product = 1;
    for (const index_t length : extent) product *= length;
    return product;
  }
};

/// The piece of a field that a rank holds, in the field's points; extents of 0 where it holds none.
template <class Field>
PointBox piece_box(const Field& field, int rank) {
  const auto pieces = field.decomposition();
  PointBox box;
  for (int d = 0; d < Field::rank; ++d) {
    const auto piece = field.cut(d).piece(pieces.part(rank, d));
    box.begin.push_back(piece.begin);
    box.extent.push_back(piece.size());
  }
  return box;
}

/// The box of the at-th chunk of a grid.
inline PointBox chunk_box(const std::vector<index_t>& at, const std::vector<index_t>& chunk) {
  PointBox box{at, chunk};
  for (std::size_t d = 0; d < at.size(); ++d) box.begin[d] *= chunk[d];
  return box;
}

/// What two boxes share; extents of 0 where nothing.
inline PointBox common(const PointBox& a, const PointBox& b) {
  PointBox both = a;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.extent[d] = std::max<index_t>(0, std::min(a.begin[d] + a.extent[d], b.begin[d] + b.extent[d]) - both.begin[d]);
  }
  return both;
}

/// Calls f(index of the chunk) for all chunks of that grid which a box touches, in row-major order.
template <class F>
void for_each_chunk(const PointBox& box, const std::vector<index_t>& chunk, F f) {
  if (box.points() == 0) return;
  const std::size_t rank = chunk.size();
  std::vector<index_t> first(rank), last(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    first[d] = box.begin[d] / chunk[d];
    last[d] = (box.begin[d] + box.extent[d] - 1) / chunk[d];
  }
  for (std::vector<index_t> at = first;;) {
    f(static_cast<const std::vector<index_t>&>(at));
    std::size_t d = rank;
    while (d > 0 && at[d - 1] == last[d - 1]) {
      at[d - 1] = first[d - 1];
      --d;
    }
    if (d == 0) return;
    ++at[d - 1];
  }
}

/// Calls f(offset in `of`, offset in `in`, points) for each row of `part`, a box in both of the boxes `of` and `in`,
/// whose points are laid out row-major.
template <class F>
void for_each_row(const PointBox& part, const PointBox& of, const PointBox& in, F f) {
  if (part.points() == 0) return;
  const std::size_t rank = part.begin.size();
  if (rank == 0) return f(index_t{0}, index_t{0}, index_t{1});
  std::vector<index_t> unit(rank, 1);
  PointBox rows = part;
  rows.extent[rank - 1] = 1;
  for_each_chunk(rows, unit, [&](const std::vector<index_t>& at) {
    index_t a = 0, b = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      a = a * of.extent[d] + at[d] - of.begin[d];
      b = b * in.extent[d] + at[d] - in.begin[d];
    }
    f(a, b, part.extent[rank - 1]);
  });
}

}  // namespace halogen::detail
