// What a redistribution adds up and what it moves, as boxes. Pure arithmetic: every rank finds the same without a word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "halogen/halo/field_pieces.hpp"
#include "halogen/placement/placement.hpp"

namespace halogen {

/// What becomes of the mesh dimensions, as masks. `scatter` and `all` are dimensions of the source's mesh, whose
/// summands are added up; `first` and `own` of the target's, whose summands are made: of a value that all coordinates
/// hold the first keeps it, of a value that is cut each keeps its piece. Partial -> Partial stays as it is.
struct PlacementMoves {
  unsigned scatter = 0;   ///< Partial -> Shard, by reduce_scatter
  unsigned all = 0;       ///< Partial -> Replicate, by all_reduce
  unsigned first = 0;     ///< Replicate -> Partial
  unsigned own = 0;       ///< Shard -> Partial
  bool one_mesh = false;  ///< both fields lie on one mesh, or on two of the same extents and ranks

  constexpr bool operator==(const PlacementMoves&) const = default;
};

/// Where both fields lie on one mesh.
constexpr PlacementMoves moves_on_one_mesh(std::span<const int> from, std::span<const int> to) {
  PlacementMoves moves;
  moves.one_mesh = true;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const unsigned bit = 1u << i;
    if (from[i] == to[i]) continue;
    if (from[i] == partial_code) (to[i] == replicate_code ? moves.all : moves.scatter) |= bit;
    if (to[i] == partial_code) (from[i] == replicate_code ? moves.first : moves.own) |= bit;
  }
  return moves;
}

/// Where they lie on two. Sums are scattered, unless all of several target ranks want all of them.
constexpr PlacementMoves moves_between_meshes(std::span<const int> from, std::span<const int> to, int target_ranks) {
  PlacementMoves moves;
  bool cut = target_ranks == 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == partial_code) moves.first |= 1u << i;
    cut |= to[i] != replicate_code;
  }
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] == partial_code) (cut ? moves.scatter : moves.all) |= 1u << i;
  return moves;
}

/// The plan of one rank. First the ranks that differ only in moves.scatter | moves.all add up the boxes `summed`, each
/// once for all who want it, so that member m of the scatter group ends with its own ones; then `strips` move.
template <int Rank>
struct RedistributePlan {
  PlacementMoves moves;
  std::vector<std::vector<Box<Rank>>> summed;  ///< by member of moves.scatter; empty where nothing is added up
  int member = 0;                              ///< this rank's position there
  HaloStrips<Rank> strips;

  bool sums() const { return !summed.empty(); }
};

namespace detail {

template <int Rank>
struct RedistributePlanner {
  const FieldPieces<Rank>& from;
  const FieldPieces<Rank>& to;
  PlacementMoves moves;

  unsigned summed() const { return moves.scatter | moves.all; }

  /// Calls f(mesh rank of the sender, box) for every part of the source that target mesh rank `t` takes. Where several
  /// hold it, the sender shares the receiver's coordinates: replicas serve disjoint receivers.
  template <class F>
  void for_each_part(int t, F f) const;

  template <class F>
  void visit(int t, Box<Rank> box, int sender, int d, F& f) const;

  /// On one mesh a summand's group scatters as the target is cut, so that the receiver's coordinate holds its sum. On
  /// two meshes: the member of `sender`'s group that takes the same box as `t`, one of several in turn, else any.
  int holder(int sender, int t) const;
};

template <int Rank>
template <class F>
void RedistributePlanner<Rank>::for_each_part(int t, F f) const {
  if (to.position(t, moves.first) != 0) return;
  const int receiver = from.mesh_rank_of(to.rank_of(t));
  visit(t, to.box(t), receiver >= 0 ? receiver : t % from.size(), 0, f);
}

template <int Rank>
template <class F>
void RedistributePlanner<Rank>::visit(int t, Box<Rank> box, int sender, int d, F& f) const {
  if (d == Rank) {
    if (moves.one_mesh && from.position(sender, moves.own) != from.position(t, moves.own)) return;
    return f(moves.one_mesh || moves.scatter == 0 ? sender : holder(sender, t), box);
  }
  const auto at = static_cast<std::size_t>(d);
  const Interval wanted = box.side[at];
  for (int part = 0; part < from.cut(d).parts(); ++part) {
    box.side[at] = intersect(wanted, from.cut(d).piece(part));
    if (!box.side[at].empty()) visit(t, box, from.with_part(sender, d, part), d + 1, f);
  }
}

template <int Rank>
int RedistributePlanner<Rank>::holder(int sender, int t) const {
  const Box<Rank> wanted = to.box(t);
  const int members = from.size(moves.scatter);
  index_t turn = 0;
  for (const Interval& side : wanted.side) turn += side.begin;
  std::vector<int> takers;
  for (int m = 0; m < members; ++m) {
    const int member = from.at_position(sender, moves.scatter, m), target = to.mesh_rank_of(from.rank_of(member));
    if (target >= 0 && to.position(target, moves.first) == 0 && to.box(target).side == wanted.side)
      takers.push_back(member);
  }
  if (!takers.empty()) return takers[static_cast<std::size_t>(turn) % takers.size()];
  return from.at_position(sender, moves.scatter, static_cast<int>(turn % members));
}

}  // namespace detail

/// The plan of `rank` of the communicator, which may lie outside either mesh.
template <int Rank>
RedistributePlan<Rank> redistribute_plan(const FieldPieces<Rank>& from, const FieldPieces<Rank>& to,
                                         PlacementMoves moves, int rank) {
  const detail::RedistributePlanner<Rank> planner{from, to, moves};
  const int own = from.mesh_rank_of(rank);
  const bool sums = own >= 0 && from.size(planner.summed()) > 1;
  RedistributePlan<Rank> plan{moves, {}, 0, {}};
  if (sums) {
    plan.summed.resize(static_cast<std::size_t>(from.size(moves.scatter)));
    plan.member = from.position(own, moves.scatter);
  }
  for (int t = 0; t < to.size(); ++t)
    planner.for_each_part(t, [&](int sender, const Box<Rank>& box) {
      const int peer = from.rank_of(sender), receiver = to.rank_of(t);
      if (receiver == rank) plan.strips.receives.push_back({peer, box, box});
      if (peer == rank) plan.strips.sends.push_back({receiver, box, box});
      if (sums && from.with_coordinates(sender, own, planner.summed()) == own)
        plan.summed[static_cast<std::size_t>(from.position(sender, moves.scatter))].push_back(box);
    });
  const auto before = [](const Box<Rank>& a, const Box<Rank>& b) {
    for (std::size_t d = 0; d < Rank; ++d)
      if (a.side[d].begin != b.side[d].begin) return a.side[d].begin < b.side[d].begin;
    return false;
  };
  for (std::vector<Box<Rank>>& boxes : plan.summed) {  // wanted by several, added up once
    std::sort(boxes.begin(), boxes.end(), before);
    const auto same = [&](const Box<Rank>& a, const Box<Rank>& b) { return a.side == b.side; };
    boxes.erase(std::unique(boxes.begin(), boxes.end(), same), boxes.end());
  }
  return plan;
}

}  // namespace halogen
