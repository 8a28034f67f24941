// Who sends which box to whom: needed intersected with owned, over all ranks of the cut. Pure arithmetic.
#pragma once

#include <optional>
#include <vector>

#include "halogen/tensor/decomposition.hpp"

namespace halogen {

/// A box of the plane, in global indices.
struct Box {
  Interval y, x;
  index_t points() const { return y.size() * x.size(); }
  bool empty() const { return y.empty() || x.empty(); }
};

/// One strip: `from` as its owner knows it, `to` as the reader does (a periodic image lies an extent away).
struct Strip {
  int peer;
  Box from, to;
};

/// How one tensor's plane is cut and what each piece needs beyond itself, per dimension and piece.
struct PlaneNeeds {
  Cut cut[2];
  std::vector<Interval> needed[2];  ///< hull of the owned and all that readers want; may leave [0, extent)

  Interval needed_by(int dimension, int part) const { return needed[dimension][static_cast<std::size_t>(part)]; }
};

/// Strips of `rank`'s exchange, receives and sends, in one order on both sides: by peer, then periodic image. Corners
/// included, one phase. A strip whose peer is the rank itself is its own periodic image: a copy.
struct HaloStrips {
  std::vector<Strip> receives, sends;

  HaloStrips() = default;
  HaloStrips(const PlaneNeeds& plane, const Decomposition& pieces, int rank, int height_dimension = 2) {
    const int dimensions[2] = {height_dimension, height_dimension + 1};
    const int own[2] = {pieces.part(rank, dimensions[0]), pieces.part(rank, dimensions[1])};
    for (int py = 0; py < plane.cut[0].parts(); ++py)
      for (int px = 0; px < plane.cut[1].parts(); ++px) {
        const int peer = pieces.with_part(pieces.with_part(rank, dimensions[0], py), dimensions[1], px);
        const int theirs[2] = {py, px};
        for (int image_y = -1; image_y <= 1; ++image_y)
          for (int image_x = -1; image_x <= 1; ++image_x) {
            if (peer == rank && image_y == 0 && image_x == 0) continue;
            add(receives, peer, strip(plane, theirs, own, image_y, image_x));
            add(sends, peer, strip(plane, own, theirs, image_y, image_x));
          }
      }
  }

  static index_t points(const std::vector<Strip>& strips) {
    index_t points = 0;
    for (const Strip& strip : strips) points += strip.to.points();
    return points;
  }

  /// Messages that `rank` sends, and points in them.
  struct Traffic {
    index_t messages = 0, points = 0;
  };
  Traffic traffic(int rank) const {
    Traffic traffic;
    int last = -1;
    for (const Strip& strip : sends) {
      if (strip.peer == rank) continue;
      traffic.messages += strip.peer != last;
      traffic.points += strip.from.points();
      last = strip.peer;
    }
    return traffic;
  }

 private:
  using Sides = std::optional<std::pair<Box, Box>>;

  /// What `reader` needs of `owner`'s piece moved by image * extent: (from, to).
  static Sides strip(const PlaneNeeds& plane, const int owner[2], const int reader[2], int image_y, int image_x) {
    const int image[2] = {image_y, image_x};
    Interval from[2], to[2];
    for (int d = 0; d < 2; ++d) {
      const index_t shift = image[d] * plane.cut[d].extent();
      const Interval owned = plane.cut[d].piece(owner[d]);
      to[d] = intersect(plane.needed_by(d, reader[d]), {owned.begin + shift, owned.end + shift});
      if (to[d].empty()) return std::nullopt;
      from[d] = {to[d].begin - shift, to[d].end - shift};
    }
    return std::pair{Box{from[0], from[1]}, Box{to[0], to[1]}};
  }

  static void add(std::vector<Strip>& strips, int peer, const Sides& sides) {
    if (sides) strips.push_back({peer, sides->first, sides->second});
  }
};

}  // namespace halogen
