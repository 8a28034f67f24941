// copy_block: a block of one field into a block of another, wherever their pieces lie. Each rank receives exactly the
// points it lacks, one message per rank that has some.
#pragma once

#include <array>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/halo/kept_moves.hpp"

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

/// A block's place in two fields, and its extents.
template <class From, class To>
struct Block {
  BetweenShapes<typename From::Shape, typename To::Shape> shapes;
  typename From::Extents from_begin, to_begin, count;
  bool operator==(const Block&) const = default;
};

/// One block's move, prepared.
template <class From, class To>
class BlockCopy {
  static constexpr int rank = From::rank;
  using T = typename From::value_type;

 public:
  explicit BlockCopy(const Block<From, To>& block) : block_(block) {
    const auto& from = *block.shapes.from;
    const auto& to = *block.shapes.to;
    require_same_ranks(from.mesh(), to.mesh(), "copy_block");
    const int own = from.mesh().rank();
    HaloStrips<rank> strips;
    for (int receiver = 0; receiver < from.mesh().size(); ++receiver) {
      Box<rank> wanted;
      for (int d = 0; d < rank; ++d) {
        const auto i = static_cast<std::size_t>(d);
        wanted.side[i] = intersect(to.cut(d).piece(to.decomposition().part(receiver, d)),
                                   {block.to_begin[i], block.to_begin[i] + block.count[i]});
      }
      if (wanted.points() == 0) continue;
      for_each_holder(from, receiver, moved(wanted, -1), [&](int peer, const Box<rank>& box) {
        if (receiver == own) strips.receives.push_back({peer, box, moved(box, 1)});
        if (peer == own) strips.sends.push_back({receiver, box, moved(box, 1)});
      });
    }
    exchange_ = HaloExchange<T, rank>(strips, own);
    const Communicator& world = from.mesh().world();
    send_ = TransportBuffer<T>("halogen::send", exchange_.values(), Travels::in_messages, world);
    receive_ = TransportBuffer<T>("halogen::receive", exchange_.values(), Travels::in_messages, world);
    exchange_.connect(world, send_.data(), receive_.data(), "copy_block");
  }

  void run(const From& from, const To& to) {
    exchange_.start(space_, strided_view(from));
    exchange_.copy_own(space_, strided_view(from), strided_view(to));
    exchange_.finish(space_, strided_view(to));
    settle(space_, from.mesh().world(), "halogen::block");
  }

 private:
  /// The box in the other field: +1 from source to target, -1 back.
  Box<rank> moved(Box<rank> box, int sign) const {
    for (std::size_t d = 0; d < rank; ++d) {
      const index_t shift = sign * (block_.to_begin[d] - block_.from_begin[d]);
      box.side[d] = {box.side[d].begin + shift, box.side[d].end + shift};
    }
    return box;
  }

  Block<From, To> block_;
  execution_space space_;
  TransportBuffer<T> send_, receive_;
  HaloExchange<T, rank> exchange_;  // ends before its buffers do
};

}  // namespace detail

/// Collective. Points [from_begin, from_begin + count) of `from` become points [to_begin, to_begin + count) of `to`,
/// per dimension; both lie on one mesh, placements Replicate or Shard. Prepared once for fields of these shapes.
template <class From, class To>
  requires std::is_same_v<typename From::value_type, typename To::value_type> && (From::rank == To::rank)
void copy_block(const From& from, const To& to, const typename From::Extents& from_begin,
                const typename From::Extents& to_begin, const typename From::Extents& count) {
  const detail::Block<From, To> block{{from.shape(), to.shape()}, from_begin, to_begin, count};
  using Copy = detail::BlockCopy<From, To>;
  detail::KeptMoves<detail::Block<From, To>, Copy>::of_program()
      .get(block, [&] { return std::make_unique<Copy>(block); })
      .run(from, to);
}

}  // namespace halogen
