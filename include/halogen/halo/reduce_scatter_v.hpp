// reduce_scatter_v: summands of the whole on every rank to uneven pieces of their sum.
#pragma once

#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/pieces_along.hpp"

namespace halogen {

/// Pieces lie along dimension Dim, rank by rank; sizes[r] points of rank r, 0 allowed; the other extents are equal.
///
///            takes                         writes (`=`)                   emits
///   forward  a summand of the whole        this rank's piece of the sum   one reduce_scatter_v
///   vjp      a cotangent of this piece     the whole, on every rank       one all_gather_v
///
/// Views are row-major in memory_space. Made collectively, as PiecesAlong: CollectiveError where sizes or extents
/// differ between ranks, Error for a view of another shape. Adjoint: AllGatherV.
///
///   ReduceScatterV<float, 2> scatter(comm, {0, channels}, sizes);
///   scatter.forward(summand, piece);   // (sum of sizes, channels) -> (sizes[rank], channels)
template <Reducible T, int Rank, int Dim = 0>
class ReduceScatterV {
 public:
  ReduceScatterV(const Communicator& comm, const std::array<index_t, Rank>& extents, const std::vector<index_t>& sizes)
      : pieces_("reduce_scatter_v", comm, extents, sizes) {}

  const PiecesAlong<T, Rank, Dim>& pieces() const { return pieces_; }

  template <class Whole, class Piece>
  void forward(const Whole& summand, const Piece& piece) {
    pieces_.reduce_scatter(summand, piece);
  }
  template <class Piece, class Whole>
  void vjp(const Piece& cotangent, const Whole& gradient) {
    pieces_.all_gather(cotangent, gradient);
  }

 private:
  PiecesAlong<T, Rank, Dim> pieces_;
};

/// The same, once, into a new view; a whole of another size than sizes says is a CollectiveError on all ranks.
template <int Dim = 0, class Whole>
detail::owning_view<Whole> reduce_scatter_v(const Communicator& comm, const Whole& summand,
                                            const std::vector<index_t>& sizes) {
  ReduceScatterV<typename Whole::non_const_value_type, static_cast<int>(Whole::rank()), Dim> scatter(
      comm, detail::extents_of(summand), sizes);
  agree(comm, [&] { scatter.pieces().check_whole(summand); });
  const auto piece = detail::view_of<Whole>("halogen::piece", scatter.pieces().piece());
  scatter.forward(summand, piece);
  return piece;
}

}  // namespace halogen
