// Assignment: one halo exchange per field read, then one kernel, whatever the expression.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "halogen/expr/pointwise.hpp"

#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define HALOGEN_INDEPENDENT _Pragma("GCC ivdep")
#elif defined(__clang__)
#define HALOGEN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HALOGEN_INDEPENDENT
#endif

namespace halogen {
namespace detail {

/// The points of a launch: rows of a box along its last dimension, cut into pieces; `inside` are the points whose
/// reads all lie in the field, so that they need no checks.
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

  /// Calls body(position, x_begin, x_end, checked) for the parts of work item i: unchecked in the middle, checked
  /// beside.
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
    // A device thread has few points: one path keeps the kernel small.
    KOKKOS_IF_ON_DEVICE((body(at, x0, x1, std::true_type{});))
    KOKKOS_IF_ON_HOST(
        (body(at, x0, a, std::true_type{}); body(at, a, b, std::false_type{}); body(at, b, x1, std::true_type{});))
  }
};

template <class Bound, class T, int Rank>
struct AssignRows {
  Bound expression;
  StridedView<T, Rank> target;
  RowSpace<Rank> space;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    space.visit(i, [&](const Position& at, index_t begin, index_t end, auto checked) {
      if (begin >= end) return;
      const auto row = expression.template row<decltype(checked)::value>(at);
      T* out = row_of(target, at);
      HALOGEN_INDEPENDENT
      for (index_t x = begin; x < end; ++x) out[x] = static_cast<T>(row(x));
    });
  }
};

/// What an expression needs before a kernel can run: one entry per field it reads.
template <class Field>
struct FieldRead {
  Field field;
  Reach<Field::rank> reach;
};

/// Extents, cuts and mesh that all fields of an expression share; throws CollectiveError where they differ.
template <class Like, class E>
void check_alike(const Like& like, const E& expression) {
  expression.each_leaf({}, {}, [&](const auto& field, const auto&, const auto&) {
    for (int d = 0; d < Like::rank; ++d)
      if (field.cut(d) != like.cut(d))
        throw CollectiveError("operands of one expression have " + std::to_string(like.extent(d)) + " and " +
                              std::to_string(field.extent(d)) + " points in dimension " + std::to_string(d) +
                              ", or are cut otherwise: give them the same extents and cuts");
    if (!(field.mesh().world() == like.mesh().world()) || field.mesh().extents() != like.mesh().extents())
      throw CollectiveError("operands of one expression lie on different meshes: distribute them on one");
  });
}

/// The hull of all reads of each buffer, then one exchange for each.
template <class E>
void exchange_halos(const execution_space& space, const E& expression) {
  std::vector<const void*> done;
  expression.each_leaf({}, {}, [&](const auto& field, const auto&, const auto&) {
    const void* storage = &field.storage();
    for (const void* one : done)
      if (one == storage) return;
    done.push_back(storage);
    using Field = std::decay_t<decltype(field)>;
    Reach<Field::rank> hull;
    bool reaches = false;
    expression.each_leaf({}, {}, [&](const auto& other, const Offsets& shift, const Edges& edges) {
      if (static_cast<const void*>(&other.storage()) != storage) return;
      Reach<Field::rank> reach;
      for (std::size_t d = 0; d < Field::rank; ++d) {
        reach.lo[d] = std::max<index_t>(0, -shift[d]);
        reach.hi[d] = std::max<index_t>(0, shift[d]);
        reach.periodic[d] = edges.periodic[d] && shift[d] != 0;
        reaches |= shift[d] != 0;
      }
      hull.widen(reach);
    });
    if (reaches) halo_exchange(space, field, hull);
  });
}

/// The points of `field` that this rank owns, and of these the ones whose reads all lie inside the field.
template <class Field, class E>
RowSpace<Field::rank> row_space(const Field& field, const E& expression) {
  constexpr int rank = Field::rank;
  RowSpace<rank> space;
  std::array<index_t, rank> lo{}, hi{};
  expression.each_leaf({}, {}, [&](const auto&, const Offsets&, const Edges& edges) {
    for (std::size_t d = 0; d < rank; ++d) {
      lo[d] = std::max(lo[d], edges.lo[d]);
      hi[d] = std::max(hi[d], edges.hi[d]);
    }
  });
  for (int d = 0; d < rank; ++d) {
    const Interval own = field.owned(d);
    space.begin[d] = own.begin;
    space.size[d] = own.size();
    space.inside_begin[d] = lo[static_cast<std::size_t>(d)];
    space.inside_end[d] = field.extent(d) - hi[static_cast<std::size_t>(d)];
  }
  space.piece = runs_on_host ? 4096 : 1;  // neighbouring device threads read neighbouring points
  space.pieces = ceil_div(space.size[rank - 1], space.piece);
  return space;
}

/// A buffer with the expression's values, shaped as `field`, its margins as wide as the exchange has made them.
template <class Field, class E>
std::shared_ptr<typename Field::Storage> evaluated(Field& field, const E& expression) {
  using T = typename Field::value_type;
  constexpr int rank = Field::rank;
  const execution_space space;
  check_alike(field, expression);
  exchange_halos(space, expression);
  std::shared_ptr<typename Field::Storage> buffer = field.take_buffer();
  const auto bound = expression.bind();
  const AssignRows<std::decay_t<decltype(bound)>, T, rank> kernel{bound, strided_view(field, *buffer),
                                                                  row_space(field, expression)};
  Kokkos::parallel_for("halogen::assign",
                       Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, kernel.space.count()),
                       kernel);
  return buffer;
}

}  // namespace detail

/// field = expression: rebinds the field to a buffer with the values, reused from step to step; copies of the field
/// keep theirs. Collective. Placement of the expression in and out; one halo exchange per field read beyond its
/// piece. An empty field takes the shape of the expression's first field.
template <class Field, Expression E>
  requires is_sharded<Field>
void evaluate_into(Field& field, const E& expression) {
  if (field.empty()) {
    expression.each_leaf({}, {}, [&](const auto& leaf, const auto&, const auto&) {
      if (field.empty()) field = Field(leaf.mesh(), leaf.cuts());
    });
  }
  field.rebind(detail::evaluated(field, expression));
}

/// Writes the values into the field's own buffer, seen by all its copies.
template <class Field, Expression E>
  requires is_sharded<Field>
void assign(Field& field, const E& expression) {
  const auto buffer = detail::evaluated(field, expression);
  Kokkos::deep_copy(execution_space{}, field.storage().view, buffer->view);
  field.keep_spare(buffer);
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator+=(Field& field, const E& e) {
  assign(field, field + e);
  return field;
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator-=(Field& field, const E& e) {
  assign(field, field - e);
  return field;
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator*=(Field& field, const E& e) {
  assign(field, field * e);
  return field;
}

}  // namespace halogen
