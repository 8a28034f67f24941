// A redistribution's plan with its buffers, collectives and messages: placements are numbers here, so that one
// instantiation serves all placements of one value type and rank.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/halo/halo_exchange.hpp"
#include "halogen/halo/partial_sums.hpp"

namespace halogen {
namespace detail {

/// Sets a box of a tensor to zero. One work item a row.
template <class T, int Rank>
struct ZeroBox {
  StridedView<T, Rank> tensor;
  PackedStrip<Rank> box;

  ZeroBox(const StridedView<T, Rank>& view, const Box<Rank>& zeros) : tensor(view), box{} {
    for (int d = 0; d < Rank; ++d) {
      box.begin[d] = zeros.side[static_cast<std::size_t>(d)].begin;
      box.size[d] = zeros.side[static_cast<std::size_t>(d)].size();
    }
  }

  KOKKOS_FUNCTION void operator()(const index_t row) const {
    T* points = row_of_strip(tensor, box, row);
    for (index_t x = 0; x < box.size[Rank - 1]; ++x) points[x * tensor.stride[Rank - 1]] = T(0);
  }
};

/// Nothing, for value types that no reduction adds.
template <class T, int Rank>
struct sums_of {
  struct type {};
};
template <Reducible T, int Rank>
struct sums_of<T, Rank> {
  using type = PartialSums<T, Rank>;
};

/// start() packs the source and posts, finish() waits and writes the target; move() is both, with fewer copies of what
/// stays on this rank. A rank outside the source's mesh starts with a view of nothing, one outside the target's
/// finishes with one.
template <class T, int Rank>
class PreparedRedistribution {
 public:
  using View = StridedView<T, Rank>;

  PreparedRedistribution() = default;

  /// `scatter`, `all`: the ranks of those masks of `moves`, as the source's mesh has them.
  PreparedRedistribution(const Communicator& world, const FieldPieces<Rank>& from, const FieldPieces<Rank>& to,
                         PlacementMoves moves, const Communicator& scatter, const Communicator& all);

  void start(const View& source);

  /// Makes the transport move; true once what start() posted has arrived.
  bool test();

  void finish(const View& target);

  void move(const View& source, const View& target);

 private:
  /// Whether this rank's sums are just what it wants and nobody else wants them from it.
  static bool stays(const HaloStrips<Rank>& strips, const std::vector<Box<Rank>>& own, int rank);

  /// Room for the sums before they move on: the hull of their boxes.
  void make_middle(const std::vector<Box<Rank>>& own);

  void finish_sums(const View& target);

  void finish_from(const View& source, const View& target);

  void make_zeros(const View& target) const;

  static Kokkos::View<T*, memory_space> buffer(const std::string& label, index_t values) {
    return Kokkos::View<T*, memory_space>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), values);
  }

  execution_space space_;
  Box<Rank> target_;
  bool sums_first_ = false, in_place_ = false, zeros_ = false;
  typename sums_of<T, Rank>::type sums_;
  detail::Lasting<Kokkos::View<T*, memory_space>> middle_values_, kept_;
  View middle_;
  TransportBuffer<T> send_, receive_;
  HaloExchange<T, Rank> exchange_;  // ends before its buffers do
};

template <class T, int Rank>
PreparedRedistribution<T, Rank>::PreparedRedistribution(const Communicator& world, const FieldPieces<Rank>& from,
                                                        const FieldPieces<Rank>& to, PlacementMoves moves,
                                                        const Communicator& scatter, const Communicator& all) {
  for (int d = 0; d < Rank; ++d)
    if (from.cut(d).extent() != to.cut(d).extent())
      throw CollectiveError("redistribute from " + std::to_string(from.cut(d).extent()) + " to " +
                            std::to_string(to.cut(d).extent()) + " points in dimension " + std::to_string(d) +
                            ": a field keeps its extents");
  const RedistributePlan<Rank> plan = redistribute_plan(from, to, moves, world.rank());
  const int target = to.mesh_rank_of(world.rank());
  if (target >= 0) target_ = to.box(target);
  sums_first_ = plan.sums();
  index_t arriving = 0;
  for (const Strip<Rank>& strip : plan.strips.receives) arriving += strip.to.points();
  zeros_ = arriving < target_.points();
  if constexpr (Reducible<T>)
    if (plan.sums()) {
      sums_ = PartialSums<T, Rank>(plan, scatter, all);
      const std::vector<Box<Rank>>& own = plan.summed[static_cast<std::size_t>(plan.member)];
      in_place_ = stays(plan.strips, own, world.rank());
      if (in_place_) return;
      make_middle(own);
    }
  exchange_ = HaloExchange<T, Rank>(plan.strips, world.rank());
  send_ = TransportBuffer<T>("halogen::send", exchange_.values(), Travels::in_messages, world);
  receive_ = TransportBuffer<T>("halogen::receive", exchange_.values(), Travels::in_messages, world);
  exchange_.connect(world, send_.data(), receive_.data(), "redistribute");
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::start(const View& source) {
  if constexpr (Reducible<T>)
    if (sums_first_) return sums_.start(space_, source);
  exchange_.start(space_, source);
  if (exchange_.own_values() > 0 && kept_.extent(0) == 0) kept_ = buffer("halogen::kept", exchange_.own_values());
  exchange_.keep_own(space_, source, kept_.data());
}

template <class T, int Rank>
bool PreparedRedistribution<T, Rank>::test() {
  if constexpr (Reducible<T>)
    if (sums_first_) return sums_.test();
  return exchange_.test();
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::finish(const View& target) {
  if constexpr (Reducible<T>)
    if (sums_first_) return finish_sums(target);
  make_zeros(target);
  exchange_.restore_own(space_, target, kept_.data());
  exchange_.finish(space_, target);
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::move(const View& source, const View& target) {
  if constexpr (Reducible<T>)
    if (sums_first_) return sums_.start(space_, source), finish_sums(target);
  exchange_.start(space_, source);
  finish_from(source, target);
}

template <class T, int Rank>
bool PreparedRedistribution<T, Rank>::stays(const HaloStrips<Rank>& strips, const std::vector<Box<Rank>>& own,
                                            int rank) {
  const auto here = [rank](const Strip<Rank>& strip) { return strip.peer == rank; };
  return std::all_of(strips.receives.begin(), strips.receives.end(), here) &&
         std::all_of(strips.sends.begin(), strips.sends.end(), here) && strips.receives.size() == own.size();
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::make_middle(const std::vector<Box<Rank>>& own) {
  Box<Rank> all;
  for (const Box<Rank>& box : own)
    for (std::size_t d = 0; d < Rank; ++d) all.side[d] = hull(all.side[d], box.side[d]);
  middle_values_ = buffer("halogen::middle", all.points());
  middle_.data = middle_values_.data();
  index_t stride = 1;
  for (int d = Rank - 1; d >= 0; --d) {
    middle_.stride[d] = stride;
    middle_.origin[d] = all.side[static_cast<std::size_t>(d)].begin;
    stride *= all.side[static_cast<std::size_t>(d)].size();
  }
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::finish_sums(const View& target) {
  if constexpr (Reducible<T>) {
    if (in_place_) {
      make_zeros(target);
      return sums_.finish(space_, target);
    }
    sums_.finish(space_, middle_);
    exchange_.start(space_, middle_);
    finish_from(middle_, target);
  }
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::finish_from(const View& source, const View& target) {
  make_zeros(target);
  exchange_.copy_own(space_, source, target);
  exchange_.finish(space_, target);
}

template <class T, int Rank>
void PreparedRedistribution<T, Rank>::make_zeros(const View& target) const {
  if (!zeros_) return;
  const index_t rows = target_.points() / target_.side[Rank - 1].size();
  launch_range(space_, "halogen::zeros", rows, ZeroBox<T, Rank>(target, target_));
}

/// Collective over `world`. `communicators`: of the source's mesh by mask; none on a rank outside it.
template <class T, int Rank>
PreparedRedistribution<T, Rank> prepare_redistribution(const Communicator& world, const FieldPieces<Rank>& from,
                                                       const FieldPieces<Rank>& to,
                                                       std::span<const Communicator> communicators) {
  const bool one_mesh = from.extents() == to.extents() && from.ranks() == to.ranks();
  const PlacementMoves moves = one_mesh ? moves_on_one_mesh(from.codes(), to.codes())
                                        : moves_between_meshes(from.codes(), to.codes(), to.size());
  const auto ranks = [&](unsigned mask) { return communicators.empty() ? Communicator() : communicators[mask]; };
  return {world, from, to, moves, ranks(moves.scatter), ranks(moves.all)};
}

}  // namespace detail
}  // namespace halogen
