// What an expression needs before its kernel runs, and the points that the kernel visits.
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

/// The grid that is evaluated: cut as a field, and wider by `grown` where iterate() recomputes its neighbours' points.
template <int Rank>
struct Grid {
  std::array<const Cut*, Rank> cut{};
  Box<Rank> own;  ///< this rank's points
  Reach<Rank> grown;

  template <class Field>
  explicit Grid(const Field& like, const Reach<Rank>& more = {}) : grown(more) {
    for (std::size_t d = 0; d < Rank; ++d) {
      cut[d] = &like.cut(static_cast<int>(d));
      own.side[d] = wide(d, like.owned(static_cast<int>(d)));
    }
  }

  Interval wide(std::size_t d, const Interval& piece) const {
    if (piece.empty()) return piece;
    const Interval all{piece.begin - grown.lo[d], piece.end + grown.hi[d]};
    return grown.periodic[d] ? all : intersect(all, {0, cut[d]->extent()});
  }
  Interval piece(std::size_t d, int part) const { return wide(d, cut[d]->piece(part)); }
};

/// Throws CollectiveError where a field of the expression lies on another mesh than `like`, or, unless seen through a
/// slice or a pad, is cut otherwise.
template <class Like, class E>
void check_alike(const Like& like, const E& expression) {
  for (int d = 0; d < Like::rank; ++d) {
    const index_t extent = expression.extent(d);
    if (extent >= 0 && extent != like.extent(d))
      throw CollectiveError("an expression of " + std::to_string(extent) + " points in dimension " + std::to_string(d) +
                            " is given to a field of " + std::to_string(like.extent(d)) + ": they must be equal");
  }
  expression.each_leaf(Access{}, [&](const auto& field, const Access& access) {
    using Field = std::decay_t<decltype(field)>;
    if (!(field.mesh().world() == like.mesh().world()) || field.mesh().extents() != like.mesh().extents())
      throw CollectiveError("operands of one expression lie on different meshes: distribute them on one");
    if (access.regridded) return;
    for (int d = 0; d < Field::rank; ++d) {
      const int source = access.source[static_cast<std::size_t>(d)];
      if (source >= 0 && field.cut(d).parts() != 1 && field.cut(d).parts() != like.cut(source).parts())
        throw CollectiveError("a field cut into " + std::to_string(field.cut(d).parts()) +
                              " pieces stands along dimension " + std::to_string(source) +
                              ", which its partners cut into " + std::to_string(like.cut(source).parts()) +
                              ": redistribute it to their placements, or to Replicate");
      if (source >= 0 && field.cut(d).parts() == like.cut(source).parts() && field.cut(d) != like.cut(source))
        throw CollectiveError("operands of one expression are cut differently in dimension " + std::to_string(source) +
                              " of " + std::to_string(like.extent(source)) +
                              " points: redistribute_to(one, the other) gives them the same cuts");
    }
  });
}

/// How far an access reaches beyond a field that is cut as the evaluated grid; false where pieces differ in that.
template <int Rank, class Field>
bool uniform_reach(const Grid<Rank>& grid, const Field& field, const Access& access, Reach<Field::rank>& reach) {
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d));
    const int source = access.source[d];
    const auto s = static_cast<std::size_t>(source);
    const bool plain = source >= 0 && access.scale[d] == 1 && access.divisor[d] == 1;
    if (plain && cut.parts() > 1 && (grid.cut[s] == &cut || *grid.cut[s] == cut)) {
      reach.lo[d] = std::max<index_t>(0, grid.grown.lo[s] - access.offset[d]);
      reach.hi[d] = std::max<index_t>(0, grid.grown.hi[s] + access.offset[d]);
      reach.periodic[d] = (access.periodic[d] || grid.grown.periodic[s]) && (reach.lo[d] > 0 || reach.hi[d] > 0);
    } else if (cut.parts() == 1) {
      Interval all = access.read(static_cast<int>(d), {0, 1});
      if (source >= 0) {
        all = {};
        for (int p = 0; p < grid.cut[s]->parts(); ++p)
          all = hull(all, access.read(static_cast<int>(d), grid.piece(s, p), grid.grown.periodic[s]));
      }
      reach.lo[d] = std::max<index_t>(0, -all.begin);
      reach.hi[d] = std::max<index_t>(0, all.end - cut.extent());
      reach.periodic[d] = access.periodic[d] || (source >= 0 && grid.grown.periodic[s]);
    } else {
      return false;
    }
  }
  return true;
}

/// What each piece of the field holds so that all reads by `visit_accesses` find their points.
template <int Rank, class Field, class EachAccess>
HaloNeeds<Field::rank> needs_of(const Grid<Rank>& grid, const Field& field, EachAccess each_access) {
  HaloNeeds<Field::rank> needs;
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d));
    needs.dimension[d] = static_cast<int>(d);
    needs.cut[d] = cut;
    for (int p = 0; p < cut.parts(); ++p) needs.needed[d].push_back(cut.piece(p));
  }
  each_access([&](const Access& access) {
    for (std::size_t d = 0; d < Field::rank; ++d) {
      const Cut& cut = field.cut(static_cast<int>(d));
      const int source = access.source[d];
      for (int p = 0; p < cut.parts(); ++p) {
        Interval& need = needs.needed[d][static_cast<std::size_t>(p)];
        const auto s = static_cast<std::size_t>(source);
        Interval read;
        if (source < 0)
          read = access.read(static_cast<int>(d), {});
        else if (grid.cut[s]->parts() == cut.parts())
          read = access.read(static_cast<int>(d), grid.piece(s, p), grid.grown.periodic[s]);
        else  // the whole field on each rank: any piece's reads
          for (int q = 0; q < grid.cut[s]->parts(); ++q)
            read = hull(read, access.read(static_cast<int>(d), grid.piece(s, q), grid.grown.periodic[s]));
        if (!access.periodic[d]) read = intersect(read, {0, cut.extent()});
        if (read.empty()) continue;
        if (access.periodic[d])
          check_halo_fits(-read.begin, read.end - cut.extent(), cut.extent(), static_cast<int>(d));
        const Interval own = cut.piece(p);
        const index_t most = std::max<index_t>(own.size(), 16);
        if (read.begin < own.begin - most || read.end > own.end + most)
          throw CollectiveError("an expression reads points " + std::to_string(read.begin) + ".." +
                                std::to_string(read.end) + " of dimension " + std::to_string(d) +
                                " where a rank holds " + std::to_string(own.begin) + ".." + std::to_string(own.end) +
                                ": the slice lies far from where it is used; assign it to a field of its own and "
                                "redistribute_to(that, a field cut as the others)");
        need = {std::min(need.begin, read.begin), std::max(need.end, read.end)};  // a piece without points has a place
      }
    }
  });
  return needs;
}

/// Calls use(field, reach or needs) once for each buffer that is read beyond its piece, with the hull of all its reads.
/// `fresh(storage)`: its margins are already filled.
template <int Rank, class E, class Fresh, class Use>
void each_exchange(const Grid<Rank>& grid, const E& expression, Fresh fresh, Use use) {
  std::array<const void*, 64> done;
  std::size_t count = 0;
  expression.each_leaf(Access{}, [&](const auto& field, const Access&) {
    using Field = std::decay_t<decltype(field)>;
    const void* storage = &field.storage();
    if (fresh(storage)) return;
    for (std::size_t i = 0; i < count; ++i)
      if (done[i] == storage) return;
    if (count < done.size()) done[count++] = storage;  // beyond, an exchange is merely repeated
    const auto each_access = [&](auto visit) {
      expression.each_leaf(Access{}, [&](const auto& other, const Access& access) {
        if (static_cast<const void*>(&other.storage()) == storage) visit(access);
      });
    };
    Reach<Field::rank> all;
    bool uniform = true;
    each_access([&](const Access& access) {
      Reach<Field::rank> one;
      uniform = uniform && uniform_reach(grid, field, access, one);
      all.widen(one);
    });
    if (!uniform)
      use(field, needs_of(grid, field, each_access));
    else if (!(all == Reach<Field::rank>{}))
      use(field, all);
  });
}

/// The hull of all reads of each buffer, then one exchange for each.
template <int Rank, class E, class Fresh>
void exchange_halos(const execution_space& space, const Grid<Rank>& grid, const E& expression, Fresh fresh) {
  each_exchange(grid, expression, fresh,
                [&](const auto& field, const auto& needed) { halo_exchange(space, field, needed); });
}
template <int Rank, class E>
void exchange_halos(const execution_space& space, const Grid<Rank>& grid, const E& expression) {
  exchange_halos(space, grid, expression, [](const void*) { return false; });
}

/// The points of `box`, and of these the ones whose reads all lie inside the fields. `image` as in bind().
template <int Rank, class E>
RowSpace<Rank> row_space(const Box<Rank>& box, const E& expression, const Offsets& image = {}) {
  RowSpace<Rank> space;
  std::array<Interval, max_rank> inside;
  inside.fill({-Access::far, Access::far});
  expression.each_leaf(Access{}, [&](const auto&, const Access& access) {
    for (std::size_t d = 0; d < Rank; ++d) inside[d] = intersect(inside[d], access.inside[d]);
  });
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
