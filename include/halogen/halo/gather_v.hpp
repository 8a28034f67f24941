// gather_v: uneven pieces to the whole, on one rank.
#pragma once

#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/pieces_along.hpp"

namespace halogen {

/// Pieces lie along dimension Dim, rank by rank; sizes[r] points of rank r, 0 allowed; the other extents are equal.
///
///            takes                            writes (`=`)             emits
///   forward  this rank's piece                the whole, on the root   one gather_v
///   vjp      a cotangent of the root's whole  this rank's piece of it  one scatter_v
///
/// The whole of another rank than the root is neither read nor written: an empty view will do. Views are row-major in
/// memory_space. Made collectively, as PiecesAlong: CollectiveError where sizes, extents or roots differ between ranks,
/// Error for a view of another shape. Adjoint: ScatterV.
///
///   GatherV<float, 2> gather(comm, {0, channels}, sizes, 0);
///   gather.forward(piece, whole);   // (sizes[rank], channels) -> (sum of sizes, channels) on rank 0
template <class T, int Rank, int Dim = 0>
class GatherV {
 public:
  GatherV(const Communicator& comm, const std::array<index_t, Rank>& extents, const std::vector<index_t>& sizes,
          int root = 0)
      : pieces_("gather_v", comm, extents, sizes), root_(detail::checked_root("gather_v", comm, root)) {}

  const PiecesAlong<T, Rank, Dim>& pieces() const { return pieces_; }

  template <class Piece, class Whole>
  void forward(const Piece& piece, const Whole& whole) {
    pieces_.gather(piece, whole, root_);
  }
  template <class Whole, class Piece>
  void vjp(const Whole& cotangent, const Piece& gradient) {
    pieces_.scatter(cotangent, gradient, root_);
  }

 private:
  PiecesAlong<T, Rank, Dim> pieces_;
  int root_;
};

/// The same, once: the whole in a new view on the root, an empty one elsewhere. A piece of another size than sizes says
/// is a CollectiveError on all ranks.
template <int Dim = 0, class Piece>
detail::owning_view<Piece> gather_v(const Communicator& comm, const Piece& piece, const std::vector<index_t>& sizes,
                                    int root = 0) {
  GatherV<typename Piece::non_const_value_type, static_cast<int>(Piece::rank()), Dim> gather(
      comm, detail::extents_of(piece), sizes, root);
  agree(comm, [&] { gather.pieces().check_piece(piece); });
  detail::owning_view<Piece> whole;
  if (comm.rank() == root) whole = detail::view_of<Piece>("halogen::whole", gather.pieces().whole());
  gather.forward(piece, whole);
  return whole;
}

}  // namespace halogen
