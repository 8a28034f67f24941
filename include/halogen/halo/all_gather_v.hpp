// all_gather_v: uneven pieces to the whole, on every rank.
#pragma once

#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/pieces_along.hpp"

namespace halogen {

/// Pieces lie along dimension Dim, rank by rank; sizes[r] points of rank r, 0 allowed; the other extents are equal.
///
///            takes                        writes (`=`)                   emits
///   forward  this rank's piece            the whole, on every rank       one all_gather_v
///   vjp      a cotangent of each whole    this rank's piece of the sum   one reduce_scatter_v
///
/// Views are row-major in memory_space. Made collectively, as PiecesAlong: CollectiveError where sizes or extents
/// differ between ranks, Error for a view of another shape. Adjoint: ReduceScatterV.
///
///   AllGatherV<float, 2> gather(comm, {0, channels}, sizes);
///   gather.forward(piece, whole);   // (sizes[rank], channels) -> (sum of sizes, channels)
template <class T, int Rank, int Dim = 0>
class AllGatherV {
 public:
  AllGatherV(const Communicator& comm, const std::array<index_t, Rank>& extents, const std::vector<index_t>& sizes)
      : pieces_("all_gather_v", comm, extents, sizes) {}

  const PiecesAlong<T, Rank, Dim>& pieces() const { return pieces_; }

  template <class Piece, class Whole>
  void forward(const Piece& piece, const Whole& whole) {
    pieces_.all_gather(piece, whole);
  }
  template <class Whole, class Piece>
  void vjp(const Whole& cotangent, const Piece& gradient) {
    pieces_.reduce_scatter(cotangent, gradient);
  }

 private:
  PiecesAlong<T, Rank, Dim> pieces_;
};

/// The same, once, into a new view; a piece of another size than sizes says is a CollectiveError on all ranks.
template <int Dim = 0, class Piece>
detail::owning_view<Piece> all_gather_v(const Communicator& comm, const Piece& piece,
                                        const std::vector<index_t>& sizes) {
  AllGatherV<typename Piece::non_const_value_type, static_cast<int>(Piece::rank()), Dim> gather(
      comm, detail::extents_of(piece), sizes);
  agree(comm, [&] { gather.pieces().check_piece(piece); });
  const auto whole = detail::view_of<Piece>("halogen::whole", gather.pieces().whole());
  gather.forward(piece, whole);
  return whole;
}

}  // namespace halogen
