// Parameters that lie on a field, sharded: of such a table a rank needs the numbers of its own points alone. They come
// from the ranks that keep them, and the gradients go back there. Pure arithmetic, for dry runs too.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/run/parameters/parameter_sharding.hpp"

namespace halogen::detail {

/// Calls f(first, count) for each run of neighbouring values that a rank needs if it has the points of a box: first
/// those that belong to no point. The runs ascend.
template <class F>
void for_each_run(const PointNumbers& table, const Box<spatial_dimensions>& box, F f) {
  if (table.before > 0) f(index_t{0}, table.before);
  const index_t width = table.channels_first ? 1 : table.channels;
  const auto& [planes, rows, columns] = box.side;
  for (int c = 0; c < (table.channels_first ? table.channels : 1); ++c)
    for (index_t z = planes.begin; z < planes.end; ++z)
      for (index_t y = rows.begin; y < rows.end; ++y) {
        const index_t point = ((c * table.extent[0] + z) * table.extent[1] + y) * table.extent[2] + columns.begin;
        f(table.before + point * width, columns.size() * width);
      }
}

/// What the ranks of a group send each other of one bucket that is such a table. In memory a rank has the numbers that
/// it needs in the order of the table, so what another rank keeps of them is one run.
class PointTransfers {
 public:
  /// Values that come from a rank of the group, or go to it.
  struct Part {
    int rank;
    index_t count;
  };

  PointTransfers(const Layout& layout, const ParameterSharding& sharding, int bucket);

  int bucket() const { return bucket_; }
  /// How many values this rank needs, and how many of its piece it sends, to itself as well.
  index_t needed() const { return needed_; }
  index_t sent() const { return static_cast<index_t>(places_.size()); }
  /// In the order of the ranks: what this rank receives, and what it sends.
  const std::vector<Part>& comes() const { return comes_; }
  const std::vector<Part>& goes() const { return goes_; }
  /// Where the values that go are in this rank's piece: those for the first rank, then those for the next.
  const std::vector<int>& places() const { return places_; }
  int number() const { return number_; }  ///< this rank's in the group

 private:
  int bucket_, number_;
  index_t needed_ = 0;
  std::vector<Part> comes_, goes_;
  std::vector<int> places_;
};

/// Those of all such buckets, if parameters are sharded over more than one rank.
std::vector<PointTransfers> point_transfers(const Layout& layout, const ParameterSharding& sharding);

#if HALOGEN_BODIES
HALOGEN_INLINE PointTransfers::PointTransfers(const Layout& layout, const ParameterSharding& sharding, int bucket)
    : bucket_(bucket), number_(layout.decomposition().number_in(layout.rank(), sharding.mesh_mask)) {
  const ParameterBuckets::Bucket& values = sharding.buckets[bucket];
  const PointNumbers& table = layout.plan().graph.parameters[values.table].points;
  if (values.piece > std::numeric_limits<int>::max())
    throw CollectiveError("a table of numbers for each point has " + std::to_string(values.piece) +
                          " values on a rank, at most " + std::to_string(std::numeric_limits<int>::max()) +
                          ": shard parameters over more ranks");
  const auto box_of = [&](int number) {
    return layout.box(table.level, layout.decomposition().with_number(layout.rank(), sharding.mesh_mask, number));
  };
  for (int r = 0; r < sharding.buckets.ranks(); ++r) comes_.push_back({r, 0}), goes_.push_back({r, 0});
  for_each_run(table, box_of(number_), [&](index_t first, index_t count) {
    needed_ += count;
    for (const index_t end = first + count; first < end;) {
      const index_t owner = first / values.piece, here = std::min(end, (owner + 1) * values.piece) - first;
      comes_[static_cast<std::size_t>(owner)].count += here;
      first += here;
    }
  });
  const index_t begin = values.piece * number_, end = begin + values.piece;
  for (Part& part : goes_) {
    for_each_run(table, box_of(part.rank), [&](index_t first, index_t count) {
      for (index_t i = std::max(first, begin); i < std::min(first + count, end); ++i, ++part.count)
        places_.push_back(static_cast<int>(i - begin));
    });
  }
}

HALOGEN_INLINE std::vector<PointTransfers> point_transfers(const Layout& layout, const ParameterSharding& sharding) {
  std::vector<PointTransfers> transfers;
  if (sharding.buckets.ranks() == 1) return transfers;
  for (int b = 0; b < sharding.buckets.size(); ++b)
    if (sharding.buckets[b].table >= 0) transfers.emplace_back(layout, sharding, b);
  return transfers;
}
#endif

}  // namespace halogen::detail
