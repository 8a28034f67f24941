// Who sends which box to whom: needed intersected with owned, over all ranks of the cut. Pure arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "halogen/tensor/decomposition.hpp"

namespace halogen {

/// A box of Rank dimensions, in global indices.
template <int Rank>
struct Box {
  std::array<Interval, Rank> side{};

  index_t points() const {
    index_t points = 1;
    for (const Interval& interval : side) points *= interval.size();
    return points;
  }
};

/// One strip: `from` as its owner knows it, `to` as the reader does (a periodic image lies some extents away).
template <int Rank>
struct Strip {
  int peer;
  Box<Rank> from, to;
};

/// How a tensor is cut in Rank of its dimensions and what each piece needs beyond itself, per dimension and piece.
template <int Rank>
struct HaloNeeds {
  std::array<int, Rank> dimension{};  ///< tensor dimension of each
  std::array<Cut, Rank> cut;
  std::array<std::vector<Interval>, Rank> needed;  ///< hull of the owned and all that readers want; may leave the field

  Interval needed_by(int d, int part) const {
    return needed[static_cast<std::size_t>(d)][static_cast<std::size_t>(part)];
  }
};

/// Strips of `rank`'s exchange, receives and sends, in one order on both sides: by peer, then periodic image. Corners
/// included, one phase. A strip whose peer is the rank itself is its own periodic image: a copy.
template <int Rank>
class HaloStrips {
 public:
  std::vector<Strip<Rank>> receives, sends;

  HaloStrips() = default;
  HaloStrips(const HaloNeeds<Rank>& needs, const Decomposition& pieces, int rank);

  static index_t points(const std::vector<Strip<Rank>>& strips);

  /// Messages that `rank` sends, and points in them.
  struct Traffic {
    index_t messages = 0, points = 0;
  };
  Traffic traffic(int rank) const;

 private:
  using Index = std::array<int, Rank>;
  using Sides = std::optional<std::pair<Box<Rank>, Box<Rank>>>;

  static int& at(Index& index, int d) { return index[static_cast<std::size_t>(d)]; }

  /// More than one where a halo is wider than the whole field.
  static int images_beside(const HaloNeeds<Rank>& needs, std::size_t d);

  /// All index tuples below `extents`, row-major.
  template <class F>
  static void for_each(const Index& extents, F f);

  /// What `reader` needs of `owner`'s piece moved by image * extent: (from, to).
  static Sides strip(const HaloNeeds<Rank>& needs, const Index& owner, const Index& reader, const Index& image);

  static void add(std::vector<Strip<Rank>>& strips, int peer, const Sides& sides) {
    if (sides) strips.push_back({peer, sides->first, sides->second});
  }
};

template <int Rank>
HaloStrips<Rank>::HaloStrips(const HaloNeeds<Rank>& needs, const Decomposition& pieces, int rank) {
  Index parts, own;
  for (int d = 0; d < Rank; ++d) {
    at(parts, d) = needs.cut[static_cast<std::size_t>(d)].parts();
    at(own, d) = pieces.part(rank, needs.dimension[static_cast<std::size_t>(d)]);
  }
  Index images;  // of the field: itself, and on either side of it as many as somebody reads
  for (int d = 0; d < Rank; ++d) at(images, d) = 1 + 2 * images_beside(needs, static_cast<std::size_t>(d));
  for_each(parts, [&](const Index& theirs) {
    int peer = rank;
    for (int d = 0; d < Rank; ++d)
      peer = pieces.with_part(peer, needs.dimension[static_cast<std::size_t>(d)], theirs[static_cast<std::size_t>(d)]);
    for_each(images, [&](Index image) {
      bool itself = peer == rank;
      for (int d = 0; d < Rank; ++d) itself &= (at(image, d) -= at(images, d) / 2) == 0;
      if (itself) return;
      add(receives, peer, strip(needs, theirs, own, image));
      add(sends, peer, strip(needs, own, theirs, image));
    });
  });
}

template <int Rank>
index_t HaloStrips<Rank>::points(const std::vector<Strip<Rank>>& strips) {
  index_t points = 0;
  for (const Strip<Rank>& strip : strips) points += strip.to.points();
  return points;
}

template <int Rank>
auto HaloStrips<Rank>::traffic(int rank) const -> Traffic {
  Traffic traffic;
  int last = -1;
  for (const Strip<Rank>& strip : sends) {
    if (strip.peer == rank) continue;
    traffic.messages += strip.peer != last;
    traffic.points += strip.from.points();
    last = strip.peer;
  }
  return traffic;
}

template <int Rank>
int HaloStrips<Rank>::images_beside(const HaloNeeds<Rank>& needs, std::size_t d) {
  const index_t extent = needs.cut[d].extent();
  index_t beyond = 0;
  for (const Interval& need : needs.needed[d]) beyond = std::max({beyond, -need.begin, need.end - extent});
  return extent == 0 ? 0 : static_cast<int>(ceil_div(beyond, extent));
}

template <int Rank>
template <class F>
void HaloStrips<Rank>::for_each(const Index& extents, F f) {
  Index index{};
  for (;;) {
    f(index);
    int d = Rank - 1;
    while (d >= 0 && ++at(index, d) == extents[static_cast<std::size_t>(d)]) at(index, d--) = 0;
    if (d < 0) return;
  }
}

template <int Rank>
auto HaloStrips<Rank>::strip(const HaloNeeds<Rank>& needs, const Index& owner, const Index& reader, const Index& image)
    -> Sides {
  Box<Rank> from, to;
  for (std::size_t d = 0; d < Rank; ++d) {
    const index_t shift = image[d] * needs.cut[d].extent();
    const Interval owned = needs.cut[d].piece(owner[d]);
    to.side[d] = intersect(needs.needed_by(static_cast<int>(d), reader[d]), {owned.begin + shift, owned.end + shift});
    if (to.side[d].empty()) return std::nullopt;
    from.side[d] = {to.side[d].begin - shift, to.side[d].end - shift};
  }
  return std::pair{from, to};
}

}  // namespace halogen
