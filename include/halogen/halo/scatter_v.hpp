// scatter_v: one rank's whole to uneven pieces.
#pragma once

#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/pieces_along.hpp"

namespace halogen {

/// Pieces lie along dimension Dim, rank by rank; sizes[r] points of rank r, 0 allowed; the other extents are equal and
/// known to all ranks.
///
///            takes                         writes (`=`)               emits
///   forward  the root's whole              this rank's piece of it    one scatter_v
///   vjp      a cotangent of this piece     the whole, on the root     one gather_v
///
/// The whole of another rank than the root is neither read nor written: an empty view will do. Views are row-major in
/// memory_space. Made collectively, as PiecesAlong: CollectiveError where sizes, extents or roots differ between ranks,
/// Error for a view of another shape. Adjoint: GatherV.
///
///   ScatterV<float, 2> scatter(comm, {0, channels}, sizes, 0);
///   scatter.forward(whole, piece);   // (sum of sizes, channels) on rank 0 -> (sizes[rank], channels)
template <class T, int Rank, int Dim = 0>
class ScatterV {
 public:
  ScatterV(const Communicator& comm, const std::array<index_t, Rank>& extents, const std::vector<index_t>& sizes,
           int root = 0)
      : pieces_("scatter_v", comm, extents, sizes), root_(detail::checked_root("scatter_v", comm, root)) {}

  const PiecesAlong<T, Rank, Dim>& pieces() const { return pieces_; }

  template <class Whole, class Piece>
  void forward(const Whole& whole, const Piece& piece) {
    pieces_.scatter(whole, piece, root_);
  }
  template <class Piece, class Whole>
  void vjp(const Piece& cotangent, const Whole& gradient) {
    pieces_.gather(cotangent, gradient, root_);
  }

 private:
  PiecesAlong<T, Rank, Dim> pieces_;
  int root_;
};

/// The same, once, into a new view. `extents` (those of the whole, but along Dim) are given by all ranks, `whole` by
/// the root; one of another shape is a CollectiveError on all ranks.
template <int Dim = 0, class Whole>
detail::owning_view<Whole> scatter_v(const Communicator& comm, const Whole& whole,
                                     const std::array<index_t, Whole::rank()>& extents,
                                     const std::vector<index_t>& sizes, int root = 0) {
  ScatterV<typename Whole::non_const_value_type, static_cast<int>(Whole::rank()), Dim> scatter(comm, extents, sizes,
                                                                                               root);
  agree(comm, [&] {
    if (comm.rank() == root) scatter.pieces().check_whole(whole);
  });
  const auto piece = detail::view_of<Whole>("halogen::piece", scatter.pieces().piece());
  scatter.forward(whole, piece);
  return piece;
}

}  // namespace halogen
