// copy_block: a block of one field into a block of another, wherever their pieces lie. Each rank receives exactly the
// points it lacks, one message per rank that has some.
#pragma once

#include <array>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/halo/strip_move.hpp"

namespace halogen {
namespace detail {

/// Calls f(peer, box) for every part of `wanted` (global indices of the source) that some rank holds, the nearest
/// holder of each: the one that differs from `receiver` only where the source is cut.
template <int Rank, class F>
void for_each_holder(const FieldPlace<Rank>& source, int receiver, const Box<Rank>& wanted, F f, int d = 0,
                     int peer = -1, Box<Rank> box = {}) {
  if (d == 0) peer = receiver;
  if (d == Rank) return f(peer, box);
  const auto at = static_cast<std::size_t>(d);
  for (int part = 0; part < source.cuts[at].parts(); ++part) {
    box.side[at] = intersect(wanted.side[at], source.cuts[at].piece(part));
    if (!box.side[at].empty())
      for_each_holder(source, receiver, wanted, f, d + 1, source.pieces.with_part(peer, d, part), box);
  }
}

/// A block's place in two fields, and its extents.
template <int Rank>
struct BlockPlace {
  std::array<index_t, Rank> from_begin, to_begin, count;
  bool operator==(const BlockPlace&) const = default;
};
template <int Rank>
struct BlockAsked {
  Between<Rank> fields;
  BlockPlace<Rank> place;
};
template <int Rank>
struct BlockKey {
  BetweenKey<Rank> fields;
  BlockPlace<Rank> place;

  explicit BlockKey(const BlockAsked<Rank>& asked) : fields(asked.fields), place(asked.place) {}
  bool operator==(const BlockAsked<Rank>& asked) const { return place == asked.place && fields == asked.fields; }
};

/// The box in the other field: +1 from source to target, -1 back.
template <int Rank>
Box<Rank> in_other_field(Box<Rank> box, const BlockPlace<Rank>& place, int sign) {
  for (std::size_t d = 0; d < Rank; ++d) {
    const index_t shift = sign * (place.to_begin[d] - place.from_begin[d]);
    box.side[d] = {box.side[d].begin + shift, box.side[d].end + shift};
  }
  return box;
}

/// What rank `own` sends and receives of a block.
template <int Rank>
HaloStrips<Rank> block_strips(const BlockAsked<Rank>& block, int ranks, int own) {
  const auto& [from, to] = block.fields;
  const BlockPlace<Rank>& place = block.place;
  HaloStrips<Rank> strips;
  for (int receiver = 0; receiver < ranks; ++receiver) {
    Box<Rank> wanted;
    for (int d = 0; d < Rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      wanted.side[i] = intersect(to.cuts[i].piece(to.pieces.part(receiver, d)),
                                 {place.to_begin[i], place.to_begin[i] + place.count[i]});
    }
    if (wanted.points() == 0) continue;
    for_each_holder(from, receiver, in_other_field(wanted, place, -1), [&](int peer, const Box<Rank>& box) {
      if (receiver == own) strips.receives.push_back({peer, box, in_other_field(box, place, 1)});
      if (peer == own) strips.sends.push_back({receiver, box, in_other_field(box, place, 1)});
    });
  }
  return strips;
}

}  // namespace detail

/// Collective. Points [from_begin, from_begin + count) of `from` become points [to_begin, to_begin + count) of `to`,
/// per dimension; both lie on one mesh, placements Replicate or Shard. Prepared once for fields of these shapes.
template <class From, class To>
  requires std::is_same_v<typename From::value_type, typename To::value_type> && (From::rank == To::rank)
void copy_block(const From& from, const To& to, const typename From::Extents& from_begin,
                const typename From::Extents& to_begin, const typename From::Extents& count) {
  constexpr int rank = From::rank;
  using Copy = detail::StripMove<typename From::value_type, rank>;
  const detail::BlockAsked<rank> block{detail::between(from, to, "copy_block"), {from_begin, to_begin, count}};
  const auto prepare = [&] {
    detail::require_same_ranks(from.mesh(), to.mesh(), "copy_block");
    const Communicator& world = from.mesh().world();
    return std::make_unique<Copy>(world, detail::block_strips(block, world.size(), world.rank()), "copy_block");
  };
  from.shape("copy_block")->agree();
  to.shape("copy_block")->agree();
  from.mesh()
      .template prepared<detail::PreparedByMesh<detail::BlockKey<rank>, Copy>>()
      .get(block, prepare)
      .run(detail::strided_view(from), detail::strided_view(to), "halogen::block");
}

}  // namespace halogen
