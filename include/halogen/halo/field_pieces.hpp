// Which box of a tensor each rank holds: a field without its values, as plans need it.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/halo/boxes.hpp"
#include "halogen/tensor/decomposition.hpp"

namespace halogen {

/// Two numberings of ranks: a *mesh rank* counts within the field's mesh, a *rank* within the communicator that moves
/// the field. They differ where the mesh covers only some of the communicator's ranks.
template <int Rank>
class FieldPieces {
 public:
  /// `ranks[m]` is the communicator's number of mesh rank m; empty where both numberings agree.
  FieldPieces(std::span<const int> extents, std::span<const int> codes, std::span<const std::string_view> names,
              std::array<Cut, Rank> cuts, std::vector<int> ranks = {});

  const std::vector<int>& extents() const { return extents_; }
  const std::vector<int>& ranks() const { return ranks_; }
  std::span<const int> codes() const { return pieces_.codes(); }
  const Cut& cut(int d) const { return cuts_[static_cast<std::size_t>(d)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  int rank_of(int mesh_rank) const { return ranks_[static_cast<std::size_t>(mesh_rank)]; }
  /// -1 for a rank outside the mesh.
  int mesh_rank_of(int rank) const {
    return rank < static_cast<int>(mesh_ranks_.size()) ? mesh_ranks_[static_cast<std::size_t>(rank)] : -1;
  }

  Box<Rank> box(int mesh_rank) const;

  /// The mesh rank that differs from `mesh_rank` only in holding piece `part` of dimension d.
  int with_part(int mesh_rank, int d, int part) const { return pieces_.with_part(mesh_rank, d, part); }

  /// Mesh ranks that differ only in the mesh dimensions of `mask`: how many, and the position of one among them,
  /// row-major, as in DeviceMesh::communicator(mask).
  int size(unsigned mask) const { return pieces_.size(mask); }
  int position(int mesh_rank, unsigned mask) const;

  /// The mesh rank at `position` among those that differ from `mesh_rank` only in the dimensions of `mask`.
  int at_position(int mesh_rank, unsigned mask, int position) const;

  /// `mesh_rank` with the coordinates of `other` in the dimensions of `mask`.
  int with_coordinates(int mesh_rank, int other, unsigned mask) const;

 private:
  /// f(mesh dimension, ranks from one coordinate to the next), first dimension first.
  template <class F>
  void for_each_dimension(F f) const;

  std::vector<int> extents_;
  Decomposition pieces_;
  std::array<Cut, Rank> cuts_;
  std::vector<int> ranks_, mesh_ranks_;
};

template <int Rank>
FieldPieces<Rank>::FieldPieces(std::span<const int> extents, std::span<const int> codes,
                               std::span<const std::string_view> names, std::array<Cut, Rank> cuts,
                               std::vector<int> ranks)
    : extents_(extents.begin(), extents.end()),
      pieces_(extents, codes, names),
      cuts_(std::move(cuts)),
      ranks_(std::move(ranks)) {
  if (ranks_.empty()) {
    ranks_.resize(static_cast<std::size_t>(size(~0u)));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  mesh_ranks_.assign(static_cast<std::size_t>(*std::max_element(ranks_.begin(), ranks_.end())) + 1, -1);
  for (int m = 0; m < size(); ++m) mesh_ranks_[static_cast<std::size_t>(rank_of(m))] = m;
}

template <int Rank>
Box<Rank> FieldPieces<Rank>::box(int mesh_rank) const {
  Box<Rank> box;
  for (int d = 0; d < Rank; ++d) box.side[static_cast<std::size_t>(d)] = cut(d).piece(pieces_.part(mesh_rank, d));
  return box;
}

template <int Rank>
int FieldPieces<Rank>::position(int mesh_rank, unsigned mask) const {
  int position = 0;
  for_each_dimension([&](std::size_t i, int stride) {
    if (mask >> i & 1) position = position * extents_[i] + mesh_rank / stride % extents_[i];
  });
  return position;
}

template <int Rank>
int FieldPieces<Rank>::at_position(int mesh_rank, unsigned mask, int position) const {
  int result = mesh_rank, places = size(mask);
  for_each_dimension([&](std::size_t i, int stride) {
    if (!(mask >> i & 1)) return;
    places /= extents_[i];
    result += (position / places % extents_[i] - mesh_rank / stride % extents_[i]) * stride;
  });
  return result;
}

template <int Rank>
int FieldPieces<Rank>::with_coordinates(int mesh_rank, int other, unsigned mask) const {
  int result = mesh_rank;
  for_each_dimension([&](std::size_t i, int stride) {
    if (mask >> i & 1) result += (other / stride % extents_[i] - mesh_rank / stride % extents_[i]) * stride;
  });
  return result;
}

template <int Rank>
template <class F>
void FieldPieces<Rank>::for_each_dimension(F f) const {
  int stride = size();
  for (std::size_t i = 0; i < extents_.size(); ++i) f(i, stride /= extents_[i]);
}

/// Of a field whose mesh ranks are the ranks of its communicator.
template <class Field>
FieldPieces<Field::rank> pieces_of(const Field& field) {
  return {field.mesh().extents(), Field::placements, Field::mesh_type::names, field.cuts()};
}

}  // namespace halogen
