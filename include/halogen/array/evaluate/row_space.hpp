// The points that an expression's kernel visits.
#pragma once

#include <algorithm>
#include <type_traits>

#include "halogen/array/evaluate/read_fields.hpp"

// HALOGEN_INDEPENDENT: the iterations of the next loop are independent. clang warns if such a loop stays scalar, in the
// function into which it is inlined. HALOGEN_LOOPS_BEGIN and HALOGEN_LOOPS_END switch this warning off between them.
#if defined(__clang__)
#define HALOGEN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define HALOGEN_LOOPS_BEGIN _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpass-failed\"")
#define HALOGEN_LOOPS_END _Pragma("clang diagnostic pop")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define HALOGEN_INDEPENDENT _Pragma("GCC ivdep")
#else
#define HALOGEN_INDEPENDENT
#endif
#ifndef HALOGEN_LOOPS_BEGIN
#define HALOGEN_LOOPS_BEGIN
#define HALOGEN_LOOPS_END
#endif

namespace halogen {
namespace detail {

HALOGEN_LOOPS_BEGIN
/// The points of a launch: rows of a box along its last dimension, divided into pieces. All reads of the points in
/// `inside` are in the field, so these points need no checks.
template <int Rank>
struct RowSpace {
  index_t begin[Rank], size[Rank], inside_begin[Rank], inside_end[Rank];
  index_t piece, pieces;  ///< columns of a piece, pieces of a row

  KOKKOS_FUNCTION index_t rows() const {
    index_t rows = 1;
    for (int d = 0; d + 1 < Rank; ++d) rows *= size[d];
    return rows;
  }
  KOKKOS_FUNCTION index_t count() const { return rows() * pieces; }

  /// Calls body(position, x_begin, x_end, checked) for the parts of work item i: unchecked in the middle, checked on
  /// both sides.
  template <class Body>
  KOKKOS_FUNCTION void visit(index_t i, Body body) const {
    Position at{};
    index_t row = i / pieces;
    bool row_inside = true;
    for (int d = Rank - 2; d >= 0; --d) {
      at[d] = begin[d] + row % size[d];
      row /= size[d];
      row_inside = row_inside && at[d] >= inside_begin[d] && at[d] < inside_end[d];
    }
    const index_t x0 = begin[Rank - 1] + i % pieces * piece;
    const index_t end = begin[Rank - 1] + size[Rank - 1];
    const index_t x1 = x0 + piece < end ? x0 + piece : end;
    index_t a = x1, b = x1;
    if (row_inside) {
      a = inside_begin[Rank - 1] > x0 ? inside_begin[Rank - 1] : x0;
      a = a < x1 ? a : x1;
      b = inside_end[Rank - 1] < x1 ? inside_end[Rank - 1] : x1;
      b = b > a ? b : a;
    }
    // A device thread has few points. A single path keeps the kernel small.
    KOKKOS_IF_ON_DEVICE((body(at, x0, x1, std::true_type{});))
    KOKKOS_IF_ON_HOST(
        (body(at, x0, a, std::true_type{}); body(at, a, b, std::false_type{}); body(at, b, x1, std::true_type{});))
  }

  /// The same for work items begin to end, which the host visits one after the other, so that it divides only once.
  /// Calls body(position, x_begin, a, b, x_end): unchecked from a to b, checked before a and after b.
  template <class Body>
  void walk(index_t first, index_t last, const Body& body) const {
    Position at{};
    index_t row = first / pieces, part = first % pieces;
    for (int d = Rank - 2; d >= 0; row /= size[d--]) at[d] = begin[d] + row % size[d];
    for (; first < last; ++first) {
      bool row_inside = true;
      for (int d = 0; d + 1 < Rank; ++d) row_inside &= at[d] >= inside_begin[d] && at[d] < inside_end[d];
      const index_t x0 = begin[Rank - 1] + part * piece;
      const index_t x1 = std::min(x0 + piece, begin[Rank - 1] + size[Rank - 1]);
      const index_t a = row_inside ? std::clamp(inside_begin[Rank - 1], x0, x1) : x1;
      body(at, x0, a, std::clamp(inside_end[Rank - 1], a, x1), x1);
      if (++part < pieces) continue;
      part = 0;
      for (int d = Rank - 2; d >= 0; --d) {
        if (++at[d] < begin[d] + size[d]) break;
        at[d] = begin[d];
      }
    }
  }
};
HALOGEN_LOOPS_END

/// The points of `box`; `inside` are those whose reads are all inside the fields. `image` as in bind().
template <int Rank, class ReadFields>
RowSpace<Rank> row_space(const Box<Rank>& box, const ReadFields& reads, const Offsets& image = {}) {
  RowSpace<Rank> space;
  const std::array<Interval, max_rank>& inside = reads.inside();
  for (std::size_t d = 0; d < Rank; ++d) {
    space.begin[d] = box.side[d].begin;
    space.size[d] = box.side[d].size();
    space.inside_begin[d] = inside[d].begin - image[d];
    space.inside_end[d] = inside[d].end - image[d];
  }
  space.piece = runs_on_host ? 4096 : 1;  // neighbouring device threads read neighbouring points
  space.pieces = ceil_div(space.size[Rank - 1], space.piece);
  return space;
}

}  // namespace detail
}  // namespace halogen
