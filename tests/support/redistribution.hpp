// The law of redistribution, point by point: what each rank must hold afterwards, and how few bytes that takes.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "halogen/comm/comm_statistics.hpp"
#include "halogen/comm/environment.hpp"
#include "halogen/halo/redistribute.hpp"
#include "support/ran.hpp"

namespace support {

namespace hg = halogen;
using hg::index_t;

inline hg::Communicator redistribution_world() {
  static hg::Environment environment;
  return environment.world();
}

inline constexpr index_t rows = 7, columns = 11;
using Point = std::array<index_t, 2>;

inline bool holds(const hg::Box<2>& box, const Point& x) {
  return x[0] >= box.side[0].begin && x[0] < box.side[0].end && x[1] >= box.side[1].begin && x[1] < box.side[1].end;
}

/// f of all points.
template <class F>
void for_each_point(F f) {
  for (index_t y = 0; y < rows; ++y)
    for (index_t x = 0; x < columns; ++x) f(Point{y, x});
}

/// Pieces of `extent` points that grow and shrink, some of them empty: another cut for another salt.
inline hg::Cut uneven(index_t extent, int parts, int salt) {
  hg::Cut cut;
  cut.bounds.assign(1, 0);
  for (int p = 1; p < parts; ++p)
    cut.bounds.push_back(std::min(extent, cut.bounds.back() + (p * 5 + salt * 3) % 4 * extent / (2 * parts)));
  cut.bounds.push_back(extent);
  return cut;
}

/// A field with its placements as numbers: what the law needs of it.
struct Placed {
  std::vector<int> extents, codes;
  std::array<hg::Cut, 2> cuts;
  std::vector<int> ranks;  ///< empty: all, in order

  hg::FieldPieces<2> pieces() const {
    static const std::vector<std::string_view> names(8, "a");
    return {extents, codes, std::span(names).first(extents.size()), cuts, ranks};
  }
  unsigned mask(int code) const {
    unsigned mask = 0;
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (codes[i] == code) mask |= 1u << i;
    return mask;
  }
};

template <class Field>
Placed placed(const Field& field) {
  return {{field.mesh().extents().begin(), field.mesh().extents().end()},
          {Field::placements.begin(), Field::placements.end()},
          field.cuts(),
          {}};
}

/// What the source holds at x as summand `k` (position among its Partial dimensions): a small whole number, so that
/// sums are exact.
inline double summand(int k, const Point& x) {
  return static_cast<double>((static_cast<std::uint64_t>(x[0] * columns + x[1] + 1) * 2654435761u + k * 40503u) % 97) -
         40;
}

/// The law for one pair of fields.
class RedistributionLaw {
 public:
  RedistributionLaw(const Placed& source, const Placed& target)
      : source_(source),
        target_(target),
        from_(source.pieces()),
        to_(target.pieces()),
        one_mesh_(source.extents == target.extents && source.ranks == target.ranks),
        partial_(source.mask(hg::partial_code)),
        new_partial_(target.mask(hg::partial_code)) {
    if (one_mesh_) kept_ = partial_ & new_partial_;
    new_partial_ &= ~kept_;
    if (one_mesh_)
      for (std::size_t i = 0; i < target.codes.size(); ++i)
        if (target.codes[i] >= 0 && (partial_ >> i & 1)) scatter_ |= 1u << i;
    // between meshes several targets of one sum share one holder of it: then the least is no longer so plain
    exact_ = one_mesh_ || partial_ == 0 || target.mask(hg::replicate_code) == 0;
    own_ = one_mesh_ ? new_partial_ & ~source.mask(hg::replicate_code) : 0u;
  }

  double at_source(int from, const Point& x) const { return summand(from_.position(from, partial_), x); }

  /// Whether target mesh rank t holds the value at x, rather than a zero or nothing.
  bool takes(int t, const Point& x) const {
    if (!holds(to_.box(t), x) || to_.position(t, new_partial_ & ~own_) != 0) return false;
    if (own_ == 0) return true;
    int owner = t;
    for (int d = 0; d < 2; ++d)
      for (int p = 0; p < from_.cut(d).parts(); ++p)
        if (x[d] >= from_.cut(d).piece(p).begin && x[d] < from_.cut(d).piece(p).end)
          owner = from_.with_part(owner, d, p);
    return from_.position(owner, own_) == from_.position(t, own_);
  }

  /// What it holds there afterwards.
  double at_target(int t, const Point& x) const {
    if (!takes(t, x)) return 0;
    double sum = 0;
    const unsigned added = partial_ & ~kept_;
    for (int k = 0; k < from_.size(added); ++k) sum += at_source(from_.at_position(kept_ != 0 ? t : 0, added, k), x);
    return sum;
  }

  /// Values that rank `rank` must receive: those it takes and lies apart from in the source.
  std::int64_t lacking(int rank) const {
    const int t = to_.mesh_rank_of(rank), s = from_.mesh_rank_of(rank);
    std::int64_t values = 0;
    if (t >= 0) for_each_point([&](const Point& x) { values += takes(t, x) && !(s >= 0 && holds(from_.box(s), x)); });
    return values;
  }

  /// On one mesh: what mesh rank `s` contributes to the reduce_scatter and to the all_reduce after it.
  hg::CommStatistics sums(int s) const {
    std::int64_t scattered = 0, all = 0;
    const unsigned coordinates_kept = source_.mask(hg::replicate_code) | kept_,
                   all_mask = partial_ & ~kept_ & ~scatter_;
    for_each_point([&](const Point& x) {
      if (!holds(from_.box(s), x)) return;
      bool wanted = false, by_this_member = false;
      for (int t = 0; t < to_.size(); ++t)
        if (to_.position(t, coordinates_kept) == to_.position(s, coordinates_kept) && takes(t, x)) {
          wanted = true;
          by_this_member |= to_.position(t, scatter_) == to_.position(s, scatter_);
        }
      scattered += wanted;
      all += by_this_member;
    });
    const auto bytes = static_cast<std::int64_t>(sizeof(double));
    hg::CommStatistics sums;
    if (scattered > 0 && from_.size(scatter_) > 1) sums.reduce_scatters = {1, scattered * bytes};
    if (all > 0 && from_.size(all_mask) > 1) sums.all_reduces = {1, all * bytes};
    return sums;
  }

  /// Fills the source, moves, and checks every value; on one mesh every count. Whole numbers: no rounding.
  template <class Source, class Target, class Move>
  void check(Source source, Target target, Move move) const {
    const int rank = redistribution_world().rank(), s = from_.mesh_rank_of(rank), t = to_.mesh_rank_of(rank);
    if (s >= 0) source.copy_from_host(values_of(from_.box(s), [&](const Point& x) { return at_source(s, x); }));
    if (t >= 0) target.copy_from_host(values_of(to_.box(t), [](const Point&) { return -9999.0; }));
    const hg::CommStatistics before = hg::comm_stats();
    move();
    check_moved(hg::comm_stats() - before, t < 0 ? std::vector<double>() : target.to_host());
  }

  /// What a move cost and left on this rank's target. Of no type: tests move between hundreds of pairs of them.
  void check_moved(const hg::CommStatistics& spent, const std::vector<double>& values) const {
    const hg::Communicator world = redistribution_world();
    const int rank = world.rank(), s = from_.mesh_rank_of(rank), t = to_.mesh_rank_of(rank);
    INFO(text());
    if (t >= 0) {
      std::int64_t wrong = 0;
      std::size_t i = 0;
      for_each_point([&](const Point& x) {
        if (holds(to_.box(t), x)) wrong += values.at(i++) != at_target(t, x);
      });
      CHECK(wrong == 0);
    }
    if (!one_mesh_) {
      CHECK(spent.reduce_scatters.count + spent.all_reduces.count <= 2);  // one compares the meshes' ranks, once
      const std::int64_t summands = s < 0 ? 0 : from_.box(s).points() * static_cast<std::int64_t>(sizeof(double));
      CHECK(spent.reduce_scatters.bytes + spent.all_reduces.bytes <=
            summands + static_cast<std::int64_t>(sizeof(int)));  // each is added once
      if (!exact_) return;
    }
    const hg::CommStatistics expected = one_mesh_ && s >= 0 ? sums(s) : hg::CommStatistics();
    if (one_mesh_) CHECK(spent.reduce_scatters == expected.reduce_scatters);
    if (one_mesh_) CHECK(spent.all_reduces == expected.all_reduces);
    CHECK(spent.messages.count <= world.size() - 1);
    std::int64_t sent_less_lacking = spent.messages.bytes - lacking(rank) * static_cast<std::int64_t>(sizeof(double));
    world.all_reduce(&sent_less_lacking, 1);
    CHECK(sent_less_lacking == 0);
    CHECK(received() == lacking(rank));
  }

  /// Values that this rank's plan receives from others, one message from each.
  std::int64_t received() const {
    const auto plan =
        hg::redistribute_plan(from_, to_,
                              one_mesh_ ? hg::moves_on_one_mesh(source_.codes, target_.codes)
                                        : hg::moves_between_meshes(source_.codes, target_.codes, to_.size()),
                              redistribution_world().rank());
    std::int64_t values = 0;
    std::vector<int> peers;
    for (const hg::Strip<2>& strip : plan.strips.receives) {
      CHECK(std::count(peers.begin(), peers.end(), strip.peer) == 0);
      peers.push_back(strip.peer);
      if (strip.peer != redistribution_world().rank()) values += strip.to.points();
    }
    return values;
  }

  std::string text() const {
    const auto one = [](const Placed& field) {
      std::string text;
      for (std::size_t i = 0; i < field.codes.size(); ++i)
        text += (i ? ", " : "") + hg::placement_name(field.codes[i]) + " on " + std::to_string(field.extents[i]);
      return text;
    };
    return "(" + one(source_) + ") -> (" + one(target_) + ")";
  }

 private:
  static std::vector<double> values_of(const hg::Box<2>& box, const std::function<double(const Point&)>& value) {
    std::vector<double> values;
    for_each_point([&](const Point& x) {
      if (holds(box, x)) values.push_back(value(x));
    });
    return values;
  }

  Placed source_, target_;
  hg::FieldPieces<2> from_, to_;
  bool one_mesh_, exact_;
  unsigned partial_, new_partial_, kept_ = 0, scatter_ = 0, own_ = 0;
};

}  // namespace support
