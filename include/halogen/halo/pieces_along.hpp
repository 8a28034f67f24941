// A tensor in uneven pieces along one dimension, one piece a rank, and its four ways between pieces and the whole.
#pragma once

#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "halogen/halo/pack.hpp"
#include "halogen/halo/piece_view.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Collective to make, one all_reduce. `extents` are those of the tensor but along Dim, where sizes[r] are the points
/// of rank r's piece. Throws CollectiveError with one sentence on all ranks where they were given other numbers, before
/// anything moves. Kept and used again it allocates nothing; a view of another shape is then an Error of its rank.
template <class T, int Rank, int Dim>
class PiecesAlong {
  static_assert(0 <= Dim && Dim < Rank, "pieces lie along one of the tensor's dimensions");

 public:
  using Extents = std::array<index_t, Rank>;

  PiecesAlong(const char* operation, Communicator comm, const Extents& extents, const std::vector<index_t>& sizes);

  const Communicator& communicator() const { return comm_; }
  const Extents& whole() const { return whole_; }  ///< extents of the tensor
  const Extents& piece() const { return piece_; }  ///< of this rank's piece

  /// Every rank's piece to every rank: one all_gather_v.
  template <class Piece, class Whole>
  void all_gather(const Piece& piece, const Whole& whole);

  /// The sum of all ranks' wholes, to each its piece: one reduce_scatter_v.
  template <class Whole, class Piece>
    requires Reducible<T>
  void reduce_scatter(const Whole& whole, const Piece& piece);

  /// Every rank's piece to the root, whose `whole` alone is written: one gather_v.
  template <class Piece, class Whole>
  void gather(const Piece& piece, const Whole& whole, int root);

  /// To every rank its piece of the root's `whole`, which alone is read: one scatter_v.
  template <class Whole, class Piece>
  void scatter(const Whole& whole, const Piece& piece, int root);

  template <class V>
  void check_piece(const V& view) const {
    detail::check_shape(operation_, comm_, "piece", view, piece_);
  }
  template <class V>
  void check_whole(const V& view) const {
    detail::check_shape(operation_, comm_, "whole", view, whole_);
  }

 private:
  std::size_t own_count() const { return counts_[static_cast<std::size_t>(comm_.rank())]; }
  std::size_t own_bytes() const { return own_count() * sizeof(T); }
  std::string text() const { return detail::named(operation_, comm_); }

  template <class V>
  static T* data_of(const V& view) {
    return const_cast<T*>(view.data());  // of what is sent only read
  }
  template <class V>
  static StridedView<T, Rank> strided(const V& view) {
    return detail::strided_view_of<Rank>(data_of(view), view);
  }

  template <class V>
  const T* readable(const V& piece);
  template <class V>
  T* room_of_piece(const V& piece) {
    return direct_ ? piece.data() : piece_values_.data();
  }
  template <class V>
  void store(const V& piece);

  template <class V>
  const T* packed(const V& whole);
  template <class V>
  T* room(const V& whole) {
    return in_order_ ? whole.data() : whole_values_.data();
  }
  template <class V>
  void unpack(const V& whole);

  void check_alike(const std::vector<index_t>& sizes) const;

  const char* operation_;
  Communicator comm_;
  Extents whole_, piece_;
  std::vector<std::size_t> counts_, bytes_;
  StripTable<Rank> table_;
  bool direct_ = true;     // the transport reads and writes pieces where they are
  bool in_order_ = false;  // and the whole too: the pieces follow each other in its memory
  TransportBuffer<T> whole_values_, piece_values_;
  execution_space space_;
};

template <class T, int Rank, int Dim>
PiecesAlong<T, Rank, Dim>::PiecesAlong(const char* operation, Communicator comm, const Extents& extents,
                                       const std::vector<index_t>& sizes)
    : operation_(operation), comm_(std::move(comm)), whole_(extents), piece_(extents) {
  check_alike(sizes);
  piece_[Dim] = sizes[static_cast<std::size_t>(comm_.rank())];
  whole_[Dim] = std::accumulate(sizes.begin(), sizes.end(), index_t{0});
  std::vector<Strip<Rank>> pieces;
  index_t begin = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    Box<Rank> box;
    for (std::size_t d = 0; d < Rank; ++d) box.side[d] = {0, whole_[d]};
    box.side[Dim] = {begin, begin + sizes[r]};
    begin += sizes[r];
    if (box.points() > 0) pieces.push_back({static_cast<int>(r), box, box});
    counts_.push_back(static_cast<std::size_t>(box.points()));
    bytes_.push_back(counts_.back() * sizeof(T));
  }
  table_ = StripTable<Rank>(pieces, false);
  direct_ = runs_on_host || comm_.collectives_take_device_memory();
  in_order_ = Dim == 0 && direct_;
  if (!in_order_) whole_values_ = {"halogen::whole", table_.values(), Travels::in_collectives, comm_};
  if (!direct_) piece_values_ = {"halogen::piece", static_cast<index_t>(own_count()), Travels::in_collectives, comm_};
}

template <class T, int Rank, int Dim>
template <class Piece, class Whole>
void PiecesAlong<T, Rank, Dim>::all_gather(const Piece& piece, const Whole& whole) {
  check_piece(piece), check_whole(whole);
  comm_.all_gather_v(readable(piece), own_bytes(), room(whole), bytes_);
  unpack(whole);
}

template <class T, int Rank, int Dim>
template <class Whole, class Piece>
  requires Reducible<T>
void PiecesAlong<T, Rank, Dim>::reduce_scatter(const Whole& whole, const Piece& piece) {
  check_piece(piece), check_whole(whole);
  comm_.reduce_scatter_v(packed(whole), room_of_piece(piece), counts_);
  store(piece);
}

template <class T, int Rank, int Dim>
template <class Piece, class Whole>
void PiecesAlong<T, Rank, Dim>::gather(const Piece& piece, const Whole& whole, int root) {
  const bool here = comm_.rank() == root;
  check_piece(piece);
  if (here) check_whole(whole);
  comm_.gather_v(readable(piece), own_bytes(), here ? room(whole) : nullptr, bytes_, root);
  if (here) unpack(whole);
}

template <class T, int Rank, int Dim>
template <class Whole, class Piece>
void PiecesAlong<T, Rank, Dim>::scatter(const Whole& whole, const Piece& piece, int root) {
  const bool here = comm_.rank() == root;
  check_piece(piece);
  if (here) check_whole(whole);
  comm_.scatter_v(here ? packed(whole) : nullptr, bytes_, room_of_piece(piece), own_bytes(), root);
  store(piece);
}

template <class T, int Rank, int Dim>
template <class V>
const T* PiecesAlong<T, Rank, Dim>::readable(const V& piece) {
  if (!direct_) piece_values_.put(space_, piece.data(), own_count());
  settle(space_, comm_, "halogen::piece");
  return direct_ ? piece.data() : piece_values_.data();
}

template <class T, int Rank, int Dim>
template <class V>
void PiecesAlong<T, Rank, Dim>::store(const V& piece) {
  if (direct_) return;
  piece_values_.get(space_, piece.data(), own_count());
  settle(space_, comm_, "halogen::piece");
}

template <class T, int Rank, int Dim>
template <class V>
const T* PiecesAlong<T, Rank, Dim>::packed(const V& whole) {
  if (!in_order_) table_.template copy<true>(space_, strided(whole), whole_values_.data());
  settle(space_, comm_, "halogen::pack");
  return in_order_ ? whole.data() : whole_values_.data();
}

template <class T, int Rank, int Dim>
template <class V>
void PiecesAlong<T, Rank, Dim>::unpack(const V& whole) {
  if (in_order_) return;
  table_.template copy<false>(space_, strided(whole), whole_values_.data());
  settle(space_, comm_, "halogen::unpack");
}

template <class T, int Rank, int Dim>
void PiecesAlong<T, Rank, Dim>::check_alike(const std::vector<index_t>& sizes) const {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  std::vector<index_t> numbers(1, static_cast<index_t>(sizes.size()));
  numbers.insert(numbers.end(), sizes.begin(), sizes.end());
  numbers.resize(1 + ranks, 0);  // as many on all ranks, whatever they were given
  for (std::size_t d = 0; d < Rank; ++d) numbers.push_back(d == Dim ? 0 : whole_[d]);
  detail::check_same_numbers(comm_, numbers, [&](std::size_t i, const std::string& a, const std::string& b) {
    if (i == 0) return text() + a + " sizes on one rank and " + b + " on another: give one for each rank";
    if (i <= ranks)
      return text() + "the piece of rank " + std::to_string(i - 1) + " has " + a + " points on one rank and " + b +
             " on another: give all ranks the same sizes";
    return text() + "dimension " + std::to_string(i - 1 - ranks) + " has " + a + " points on one rank and " + b +
           " on another: pieces may differ in dimension " + std::to_string(Dim) + " only";
  });
  if (sizes.size() != ranks)
    throw CollectiveError(text() + std::to_string(sizes.size()) + " sizes for " + std::to_string(ranks) +
                          " ranks: give one for each rank");
  for (std::size_t r = 0; r < ranks; ++r)
    if (sizes[r] < 0)
      throw CollectiveError(text() + "the piece of rank " + std::to_string(r) + " has " + std::to_string(sizes[r]) +
                            " points: give 0 or more");
}

}  // namespace halogen
