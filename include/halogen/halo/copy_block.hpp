// copy_block: a block of one field into a block of another, wherever their pieces lie. Each rank receives exactly the
// points it lacks, one message per rank that has some.
#pragma once

#include <array>

#include "halogen/halo/field_halo.hpp"

namespace halogen {
namespace detail {

/// Calls f(peer, box) for every part of `wanted` (global indices of the source) that some rank holds, the nearest
/// holder of each: the one that differs from `receiver` only where the source is cut.
template <class Field, int Rank, class F>
void for_each_holder(const Field& source, int receiver, const Box<Rank>& wanted, F f, int d = 0, int peer = -1,
                     Box<Rank> box = {}) {
  if (d == 0) peer = receiver;
  if (d == Rank) return f(peer, box);
  const auto at = static_cast<std::size_t>(d);
  for (int part = 0; part < source.cut(d).parts(); ++part) {
    box.side[at] = intersect(wanted.side[at], source.cut(d).piece(part));
    if (!box.side[at].empty())
      for_each_holder(source, receiver, wanted, f, d + 1, source.decomposition().with_part(peer, d, part), box);
  }
}

}  // namespace detail

/// Collective. Points [from_begin, from_begin + count) of `from` become points [to_begin, to_begin + count) of `to`,
/// per dimension; both lie on one mesh, placements Replicate or Shard.
template <class From, class To>
  requires std::is_same_v<typename From::value_type, typename To::value_type> && (From::rank == To::rank)
void copy_block(const From& from, const To& to, const typename From::Extents& from_begin,
                const typename From::Extents& to_begin, const typename From::Extents& count) {
  constexpr int rank = From::rank;
  using T = typename From::value_type;
  const auto moved = [&](Box<rank> box, int sign) {
    for (std::size_t d = 0; d < rank; ++d) {
      const index_t shift = sign * (to_begin[d] - from_begin[d]);
      box.side[d] = {box.side[d].begin + shift, box.side[d].end + shift};
    }
    return box;
  };
  const int own = from.mesh().rank();
  HaloStrips<rank> strips;
  for (int receiver = 0; receiver < from.mesh().size(); ++receiver) {
    Box<rank> wanted;
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      wanted.side[i] =
          intersect(to.cut(d).piece(to.decomposition().part(receiver, d)), {to_begin[i], to_begin[i] + count[i]});
    }
    if (wanted.points() == 0) continue;
    detail::for_each_holder(from, receiver, moved(wanted, -1), [&](int peer, const Box<rank>& box) {
      if (receiver == own) strips.receives.push_back({peer, box, moved(box, 1)});
      if (peer == own) strips.sends.push_back({receiver, box, moved(box, 1)});
    });
  }
  HaloExchange<T, rank> exchange(strips, own);
  const auto buffer = [&](const char* label) {
    return Kokkos::View<T*, transport_space>(Kokkos::view_alloc(std::string(label), Kokkos::WithoutInitializing),
                                             exchange.values());
  };
  const auto send = buffer("halogen::send"), receive = buffer("halogen::receive");
  exchange.connect(from.mesh().world(), send.data(), receive.data(), "copy_block");
  const execution_space space;
  exchange.start(space, detail::strided_view(from));
  exchange.copy_own(space, detail::strided_view(from), detail::strided_view(to));
  exchange.finish(space, detail::strided_view(to));
  space.fence("halogen::copy_block");
}

}  // namespace halogen
