// Chunks of a variable that several ranks need: one of them reads and decodes each, and sends the others their parts.
//
// Along each dimension a bound between two pieces moves to the nearest bound between chunks; a dimension whose chunks
// are too long for that is not cut at all. Ranks that would read the same box divide its chunks among them, along the
// dimension that has most. What a rank reads is then a box of whole chunks, which no other reads.
// Where all bounds lie between chunks and no piece is held twice, each rank reads its own piece and nothing is sent.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/io/data/point_box.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/tensor/decomposition.hpp"

namespace halogen::detail {

/// What each rank needs of a field and what it reads, in the field's points. `chunk`: of the field's dimensions.
class SharedChunks {
 public:
  template <class Field>
  SharedChunks(const Field& field, const std::vector<index_t>& chunk) : own_(field.mesh().rank()) {
    const Decomposition pieces = field.decomposition();
    const int ranks = field.mesh().size();
    for (int rank = 0; rank < ranks; ++rank) {
      PointBox read;
      for (int d = 0; d < Field::rank; ++d) {
        const Interval whole = whole_chunks(field.cut(d), pieces.part(rank, d), chunk[at(d)]);
        read.begin.push_back(whole.begin), read.extent.push_back(whole.size());
      }
      need_.push_back(piece_box(field, rank)), read_.push_back(read);
    }
    const std::vector<PointBox> before = read_;
    for (int rank = 0; rank < ranks; ++rank) read_[at(rank)] = share_of(rank, before, chunk);
  }

  /// Whether a rank reads otherwise than it needs; the same on all ranks.
  bool any() const { return need_ != read_; }
  const PointBox& own_read() const { return read_[at(own_)]; }

  /// Collective: from what each rank has read, row-major, to what it needs. One all_to_all_v.
  template <class T>
  std::vector<T> exchanged(const Communicator& ranks, const std::vector<T>& values) const {
    std::vector<std::size_t> send_bytes, receive_bytes;
    std::vector<T> send;
    for (const PointBox& need : need_) {
      const PointBox part = common(own_read(), need);
      const std::size_t before = send.size();
      send.resize(before + static_cast<std::size_t>(part.points()));
      for_each_row(part, own_read(), part, [&](index_t from, index_t to, index_t points) {
        std::copy_n(values.data() + from, points, send.data() + before + to);
      });
      send_bytes.push_back(static_cast<std::size_t>(part.points()) * sizeof(T));
    }
    const PointBox& own = need_[at(own_)];
    std::size_t incoming = 0;
    for (const PointBox& read : read_) {
      const auto points = static_cast<std::size_t>(common(read, own).points());
      receive_bytes.push_back(points * sizeof(T));
      incoming += points;
    }
    std::vector<T> received(incoming), result(static_cast<std::size_t>(own.points()));
    ranks.all_to_all_v(send.data(), send_bytes, received.data(), receive_bytes);
    const T* next = received.data();
    for (const PointBox& read : read_) {
      const PointBox part = common(read, own);
      for_each_row(part, part, own, [&](index_t from, index_t to, index_t points) {
        std::copy_n(next + from, points, result.data() + to);
      });
      next += part.points();
    }
    return result;
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static index_t nearest(index_t bound, index_t step, index_t extent) {
    return bound == extent ? extent : std::min(extent, (bound + step / 2) / step * step);
  }
  /// All points where some piece would have no chunk left.
  static Interval whole_chunks(const Cut& cut, int part, index_t step) {
    const auto moved = [&](int of) {
      const Interval piece = cut.piece(of);
      return Interval{nearest(piece.begin, step, cut.extent()), nearest(piece.end, step, cut.extent())};
    };
    for (int other = 0; other < cut.parts(); ++other)
      if (!cut.piece(other).empty() && moved(other).empty()) return {0, cut.extent()};
    return moved(part);
  }

  /// A rank's part of a box that several would read.
  static PointBox share_of(int rank, const std::vector<PointBox>& all, const std::vector<index_t>& chunk) {
    PointBox read = all[at(rank)];
    int before = 0, holders = 0;
    for (std::size_t other = 0; other < all.size(); ++other)
      if (all[other] == read) {
        before += static_cast<int>(other) < rank;
        ++holders;
      }
    if (holders == 1 || read.points() == 0) return read;
    const auto chunks_along = [&](std::size_t d) { return ceil_div(read.extent[d], chunk[d]); };
    std::size_t most = 0;
    for (std::size_t d = 1; d < chunk.size(); ++d)
      if (chunks_along(d) > chunks_along(most)) most = d;
    const index_t count = chunks_along(most), end = read.begin[most] + read.extent[most];
    const auto bound = [&](index_t part) {
      return std::min(end, read.begin[most] + count * part / holders * chunk[most]);
    };
    const Interval own{bound(before), bound(before + 1)};
    read.begin[most] = own.begin;
    read.extent[most] = own.size();
    return read;
  }

  int own_;
  std::vector<PointBox> need_, read_;
};

}  // namespace halogen::detail
