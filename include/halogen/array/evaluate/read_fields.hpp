// The fields that an expression reads. Their types are erased here, so that checks, halos and shapes are compiled once
// for a type of field and not again for each expression.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/array/expression/functions.hpp"

namespace halogen {
namespace detail {

/// The grid that is evaluated: cut as a field, and wider by `grown` if iterate() also computes points of neighbours.
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
  /// Whether points beyond a periodic end are computed. The points that they read are beyond that end too.
  bool evaluates_images(std::size_t d) const { return grown.periodic[d] && (grown.lo[d] > 0 || grown.hi[d] > 0); }
};

/// Whether the first and the last piece have all points whose images a read at this offset needs.
inline bool holds_images(const Cut& cut, index_t offset) {
  return std::min(cut.piece(0).size(), cut.piece(cut.parts() - 1).size()) > std::abs(offset);
}

/// How far an access reaches beyond the pieces of a field that is cut as the evaluated grid; false if this differs
/// between pieces.
template <int Rank, class Field>
bool uniform_reach(const Grid<Rank>& grid, const Field& field, const Access& access, Reach<Field::rank>& reach) {
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d));
    const int source = access.source[d];
    const auto s = static_cast<std::size_t>(source);
    const bool plain = source >= 0 && access.scale[d] == 1 && access.divisor[d] == 1;
    if (has_images(access.edge[d]) && access.offset[d] != 0 && !holds_images(cut, access.offset[d])) return false;
    if (plain && cut.parts() > 1 && (grid.cut[s] == &cut || *grid.cut[s] == cut)) {
      reach.lo[d] = std::max<index_t>(0, grid.grown.lo[s] - access.offset[d]);
      reach.hi[d] = std::max<index_t>(0, grid.grown.hi[s] + access.offset[d]);
      reach.periodic[d] = (access.periodic(d) || grid.grown.periodic[s]) && (reach.lo[d] > 0 || reach.hi[d] > 0);
    } else if (cut.parts() == 1) {
      Interval all = access.read(static_cast<int>(d), {0, 1});
      if (source >= 0) {
        all = {};
        for (int p = 0; p < grid.cut[s]->parts(); ++p)
          all = hull(all, access.read(static_cast<int>(d), grid.piece(s, p), grid.grown.periodic[s]));
      }
      reach.lo[d] = std::max<index_t>(0, -all.begin);
      reach.hi[d] = std::max<index_t>(0, all.end - cut.extent());
      reach.periodic[d] = access.periodic(d) || (source >= 0 && grid.grown.periodic[s]);
    } else {
      return false;
    }
  }
  return true;
}

/// The points that each piece of the field must hold for all reads that `each_access` visits.
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
        else  // each rank has the whole field: the reads of all pieces
          for (int q = 0; q < grid.cut[s]->parts(); ++q)
            read = hull(read, access.read(static_cast<int>(d), grid.piece(s, q), grid.grown.periodic[s]));
        const bool images = access.periodic(d) || (source >= 0 && grid.evaluates_images(s));
        if (!images) read = intersect(read, {0, cut.extent()});
        if (read.empty()) continue;
        const Interval own = cut.piece(p);
        const index_t most = std::max<index_t>(own.size(), 16);
        if (access.regridded && (read.begin < own.begin - most || read.end > own.end + most))
          throw CollectiveError("an expression reads points " + std::to_string(read.begin) + ".." +
                                std::to_string(read.end) + " of dimension " + std::to_string(d) +
                                " where a rank holds " + std::to_string(own.begin) + ".." + std::to_string(own.end) +
                                ": the slice lies far from where it is used: cut_as(the slice, a field cut as the "
                                "others) moves it there");
        need = {std::min(need.begin, read.begin), std::max(need.end, read.end)};  // also for a piece without points
      }
    }
  });
  return needs;
}

/// Fills the margins of a buffer that is read beyond its piece.
struct FillMargins {
  const execution_space& space;
  template <class Field, class Needed>
  void operator()(const Field& field, const Needed& needed) const {
    halo_exchange(space, field, needed);
  }
};

/// The fields that an expression reads on a grid of this Shape, in order. Use: what each_exchange() calls.
template <class Shape, class Use = FillMargins>
class ReadFields {
 public:
  static constexpr int rank = Shape::rank;
  using Mesh = std::decay_t<decltype(std::declval<const Shape&>().mesh())>;

  struct ReadField {
    Access access;
    const Mesh* mesh;
    const std::shared_ptr<const Shape>* shape;  ///< if it has the same type as that of the grid, else null
    std::span<const int> placements;
    std::span<const Cut> cuts;
    const void *field, *storage;
    void (*exchange)(const ReadFields&, const Grid<rank>&, const void* field, const Use&);

    int dimensions() const { return static_cast<int>(cuts.size()); }
    const Cut& cut(int d) const { return cuts[static_cast<std::size_t>(d)]; }
    int source(int d) const { return access.source[static_cast<std::size_t>(d)]; }
  };

  /// Computes the expression's stages. Expression and EvaluationScope must outlive this.
  template <class E>
  explicit ReadFields(const E& expression) {
    if (!spare().empty()) {
      list_ = std::move(spare().back());
      spare().pop_back();
    }
    inside_.fill({-Access::far, Access::far});
    expression.each_leaf(Access{}, *this);
  }
  ReadFields(ReadFields&&) = default;
  ReadFields& operator=(ReadFields&&) = delete;
  ~ReadFields() {
    list_.clear();
    if (list_.capacity() > 0) spare().push_back(std::move(list_));
  }

  /// Called by each_leaf().
  void operator()(const Access& access) {
    for (std::size_t d = 0; d < inside_.size(); ++d) inside_[d] = intersect(inside_[d], access.inside[d]);
  }
  template <class Field>
  void operator()(const Field& field, const Access& access) {
    (*this)(access);
    ReadField read{access,       &field.mesh(), nullptr,          Field::placements,
                   field.cuts(), &field,        &field.storage(), &exchange<Field>};
    if constexpr (std::is_same_v<typename Field::Shape, Shape>) read.shape = &field.shape();
    list_.push_back(read);
  }

  /// Evaluated points for which every node reads a point of its own grid.
  const std::array<Interval, max_rank>& inside() const { return inside_; }

  std::size_t size() const { return list_.size(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  /// Calls use(field, reach or needs) once for each buffer that is read beyond its piece, with the hull of all its
  /// reads. `fresh(storage)`: its margins are already filled.
  template <class Fresh>
  void each_exchange(const Grid<rank>& grid, Fresh fresh, const Use& use) const {
    for (const ReadField& read : list_)
      if (!fresh(read.storage) && !repeats(read)) read.exchange(*this, grid, read.field, use);
  }
  void each_exchange(const Grid<rank>& grid, const Use& use) const {
    each_exchange(
        grid, [](const void*) { return false; }, use);
  }

 private:
  /// Lists that are no longer used, kept so that a loop of steps allocates nothing.
  static std::vector<std::vector<ReadField>>& spare() {
    static std::vector<std::vector<ReadField>> lists;
    return lists;
  }

  /// Whether an earlier read has the same buffer.
  bool repeats(const ReadField& read) const {
    return std::any_of(list_.data(), &read, [&](const ReadField& other) { return other.storage == read.storage; });
  }

  template <class Field>
  static void exchange(const ReadFields& reads, const Grid<rank>& grid, const void* of, const Use& use) {
    const Field& field = *static_cast<const Field*>(of);
    const auto each_access = [&](auto visit) {
      for (const ReadField& read : reads)
        if (read.storage == &field.storage()) visit(read.access);
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
  }

  std::vector<ReadField> list_;
  std::array<Interval, max_rank> inside_;
};

/// Throws CollectiveError if a mirror image would have to be longer than the field.
template <class ReadField>
void check_images(const ReadField& read, int d, index_t grid_extent) {
  const auto i = static_cast<std::size_t>(d);
  const index_t beyond = read.access.beyond(d, {0, grid_extent}), extent = read.access.extent[i];
  if (mirrors(read.access.edge[i]) && beyond >= extent)
    throw CollectiveError("an expression reads " + std::to_string(beyond) + " points beyond the ends of dimension " +
                          std::to_string(d) + " with " + std::to_string(extent) +
                          ", which reflects: a mirror image has at most " + std::to_string(extent - 1) +
                          (read.access.edge[i] == Edge::odd ? "; shift less" : "; shift less, or use ReplicateEdge"));
}

/// Throws CollectiveError if a field is on another mesh than the grid, or is cut differently. (Through a slice or a pad
/// the cut may differ.)
template <class Shape>
void check_alike(const Shape& grid, const ReadFields<Shape>& reads) {
  for (const auto& read : reads) {
    if (!(read.mesh->world() == grid.mesh().world()) || read.mesh->extents() != grid.mesh().extents())
      throw CollectiveError("operands of one expression lie on different meshes: distribute them on one");
    for (int d = 0; d < read.dimensions(); ++d) {
      const int source = read.source(d);
      if (source < 0) continue;
      check_images(read, d, grid.extent(source));
      if (read.access.regridded) continue;
      const Cut &cut = read.cut(d), &grid_cut = grid.cut(source);
      if (cut.parts() != 1 && cut.parts() != grid_cut.parts())
        throw CollectiveError("a field cut into " + std::to_string(cut.parts()) + " pieces stands along dimension " +
                              std::to_string(source) + ", which its partners cut into " +
                              std::to_string(grid_cut.parts()) +
                              ": redistribute it to their placements, or to Replicate");
      if (cut.parts() == grid_cut.parts() && cut != grid_cut)
        throw CollectiveError("operands of one expression are cut differently in dimension " + std::to_string(source) +
                              " of " + std::to_string(grid.extent(source)) +
                              " points: cut_as(one, the other) gives them the same cuts");
    }
  }
}

inline void check_extent(int d, index_t extent, index_t grid) {
  if (extent >= 0 && extent != grid)
    throw CollectiveError("an expression of " + std::to_string(extent) + " points in dimension " + std::to_string(d) +
                          " is given to a field of " + std::to_string(grid) + ": they must be equal");
}

/// The reads of an expression on a grid. Throws CollectiveError if extents, meshes or cuts do not fit the grid.
template <class Shape, class E>
ReadFields<Shape> reads_on(const Shape& grid, const E& expression) {
  for (int d = 0; d < Shape::rank; ++d) check_extent(d, expression.extent(d), grid.extent(d));
  ReadFields<Shape> reads(expression);
  check_alike(grid, reads);
  return reads;
}

/// Makes one exchange for each buffer, with the hull of all its reads.
template <class Shape>
void exchange_halos(const execution_space& space, const Grid<Shape::rank>& grid, const ReadFields<Shape>& reads) {
  require_environment();
  reads.each_exchange(grid, FillMargins{space});
}

}  // namespace detail
}  // namespace halogen
