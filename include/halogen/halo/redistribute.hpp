// redistribute: a field placed otherwise, on the same ranks. Each rank receives exactly the points it lacks, one
// message per rank that has some, whatever the two placements: Shard to another Shard is the one all-to-all that it
// must be.
//
//   from \ to      Replicate                  Shard<b>
//   Replicate      nothing                    nothing: each rank keeps its part
//   Shard<a>       all pieces to all          the intersections of pieces
//
// Several mesh dimensions may cut one tensor dimension, cuts may be uneven, the target may lie on another mesh shape of
// the same ranks. Where several ranks hold a point (Replicate), it comes from the one that shares the receiver's
// coordinate there, so replicas serve disjoint receivers. Partial does not compile (why::partial_is_a_sum).
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "halogen/core/why.hpp"
#include "halogen/halo/field_halo.hpp"

namespace halogen {
namespace detail {

/// The first mesh dimension that holds summands; -1 for none, and for what is no field.
template <class Field>
constexpr int first_partial() {
  if constexpr (is_sharded<Field>)
    for (std::size_t i = 0; i < Field::placements.size(); ++i)
      if (Field::placements[i] == partial_code) return static_cast<int>(i);
  return -1;
}

template <class Target, class Source>
concept Redistributable = is_sharded<Target> && is_sharded<Source> && Target::rank == Source::rank &&
                          std::is_same_v<typename Target::value_type, typename Source::value_type> &&
                          first_partial<Target>() < 0 && first_partial<Source>() < 0;

template <class Field>
Box<Field::rank> box_of(const Field& field, const Decomposition& pieces, int rank) {
  Box<Field::rank> box;
  for (int d = 0; d < Field::rank; ++d)
    box.side[static_cast<std::size_t>(d)] = field.cut(d).piece(pieces.part(rank, d));
  return box;
}

/// Calls f(peer, box) for every part of the source that `receiver` wants, itself included.
template <class Source, int Rank, class F>
void for_each_part(const Source& source, const Decomposition& pieces, int receiver, const Box<Rank>& wanted, F f,
                   int d = 0, int peer = -1, Box<Rank> box = {}) {
  if (d == 0) peer = receiver;
  if (d == Rank) return f(peer, box);
  const std::size_t at = static_cast<std::size_t>(d);
  for (int part = 0; part < source.cut(d).parts(); ++part) {
    box.side[at] = intersect(wanted.side[at], source.cut(d).piece(part));
    if (!box.side[at].empty())
      for_each_part(source, pieces, receiver, wanted, f, d + 1, pieces.with_part(peer, d, part), box);
  }
}

}  // namespace detail

/// A prepared move from fields like one to fields like another; used again and again it allocates nothing. start()
/// packs and posts, finish() waits and unpacks; `from` may be written again after start, `to` is valid after finish.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
class Redistribution {
  using T = typename Source::value_type;
  static constexpr int rank = Source::rank;

 public:
  /// Collective over the source's mesh. Throws CollectiveError where extents differ, or the meshes have other ranks.
  Redistribution(const Source& from, const Target& to) {
    for (int d = 0; d < rank; ++d)
      if (from.extent(d) != to.extent(d))
        throw CollectiveError("redistribute from " + std::to_string(from.extent(d)) + " to " +
                              std::to_string(to.extent(d)) + " points in dimension " + std::to_string(d) +
                              ": a field keeps its extents");
    if (from.mesh().size() != to.mesh().size())
      throw CollectiveError("redistribute from " + std::to_string(from.mesh().size()) + " to " +
                            std::to_string(to.mesh().size()) + " ranks: both meshes must have the same ranks");
    const Decomposition source = from.decomposition(), target = to.decomposition();
    const int own = from.mesh().rank();
    HaloStrips<rank> strips;
    for (int receiver = 0; receiver < from.mesh().size(); ++receiver)
      detail::for_each_part(from, source, receiver, detail::box_of(to, target, receiver),
                            [&](int peer, const Box<rank>& box) {
                              if (receiver == own) strips.receives.push_back({peer, box, box});
                              if (peer == own) strips.sends.push_back({receiver, box, box});
                            });
    exchange_ = HaloExchange<T, rank>(strips);
    send_ = buffer("halogen::send");
    receive_ = buffer("halogen::receive");
    exchange_.connect(from.mesh().world(), send_.data(), receive_.data(), "redistribute");
  }

  void start(const Source& from) { exchange_.start(space_, detail::strided_view(from)); }
  bool test() { return exchange_.test(); }
  void finish(const Target& to) { exchange_.finish(space_, detail::strided_view(to)); }

 private:
  Kokkos::View<T*, transport_space> buffer(const std::string& label) const {
    return Kokkos::View<T*, transport_space>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing),
                                             exchange_.values());
  }

  execution_space space_;
  HaloExchange<T, rank> exchange_;
  Kokkos::View<T*, transport_space> send_, receive_;
};

/// The field's values written into `target`, which says mesh and cuts.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Target redistribute_to(const Source& field, const Target& target) {
  Redistribution<Target, Source> redistribution(field, target);
  redistribution.start(field);
  redistribution.finish(target);
  return target;
}

/// The field's values placed as Target, on the same mesh, cut as torch.chunk. Collective; placements as the table
/// above.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Target redistribute(const Source& field) {
  typename Target::Extents extents;
  for (int d = 0; d < Source::rank; ++d) extents[static_cast<std::size_t>(d)] = field.extent(d);
  return redistribute_to(field, Target(field.mesh(), extents));
}

template <class Target, class Source,
          class Why = why::partial_is_a_sum<detail::first_partial<Source>(), detail::first_partial<Target>()>>
  requires(is_sharded<Target> && is_sharded<Source> && !detail::Redistributable<Target, Source>)
Target redistribute(const Source& field) = delete;

}  // namespace halogen
