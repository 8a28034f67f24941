// Where a field's pieces lie: its mesh, its cuts, and this rank's own interval of each dimension.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/device_mesh.hpp"
#include "halogen/core/extents.hpp"
#include "halogen/tensor/decomposition.hpp"
#include "halogen/tensor/field_size.hpp"

namespace halogen::detail {

/// Whose extents and cuts a shape has: those that the program gave, on each rank for itself, or those that follow from
/// another field's.
enum class Origin { given, derived };

/// Where a field's pieces lie; shared by fields that are made from each other.
template <class MeshType, int Rank>
class Shape {
 public:
  static constexpr int rank = Rank;

  /// Throws CollectiveError where a cut has not the mesh's number of pieces, its bounds do not ascend from 0, or a
  /// static extent differs from its own.
  Shape(const DeviceMesh<MeshType>& mesh, std::array<Cut, Rank> cuts, std::span<const int> codes,
        std::span<const int> static_extents, Origin origin)
      : mesh_(mesh), cuts_(std::move(cuts)), pieces_(mesh.extents(), codes, MeshType::names), origin_(origin) {
    for (int d = 0; d < Rank; ++d) {
      const std::vector<index_t>& bounds = cut(d).bounds;
      if (bounds.empty() || bounds.front() != 0 || !std::ranges::is_sorted(bounds))
        throw CollectiveError("a cut of dimension " + std::to_string(d) +
                              " has bounds that do not ascend from 0: give one piece behind the other, of 0 points or "
                              "more");
      if (cut(d).parts() != pieces_.parts(d))
        throw CollectiveError("dimension " + std::to_string(d) + " is cut into " + std::to_string(cut(d).parts()) +
                              " pieces, but mesh " + pieces_.text() + " has " + std::to_string(pieces_.parts(d)) +
                              " for it: give as many pieces as the mesh has");
      owned_[static_cast<std::size_t>(d)] = cut(d).piece(pieces_.part(mesh.rank(), d));
    }
    check_extents(static_extents);
  }

  /// Throws CollectiveError where an extent is not what a field's type says.
  void check_extents(std::span<const int> static_extents) const {
    for (int d = 0; d < Rank; ++d) {
      const int needed = static_extents[static_cast<std::size_t>(d)];
      if (needed != dyn && needed != extent(d))
        throw CollectiveError("dimension " + std::to_string(d) + " has " + std::to_string(extent(d)) +
                              " points, but its type says " + std::to_string(needed));
    }
  }

  /// Throws CollectiveError where the field has more bytes than can be counted.
  void check_bytes(std::size_t value_bytes) const {
    std::array<index_t, Rank> extents;
    for (int d = 0; d < Rank; ++d) extents[static_cast<std::size_t>(d)] = extent(d);
    check_extents_of_field(extents, value_bytes);
  }

  /// Collective over the ranks that differ in the mesh dimensions of `mask`, who are about to communicate: throws
  /// CollectiveError on all of them where they were given other extents or cuts. Once for a shape.
  void agree(unsigned mask) const {
    if (origin_ == Origin::derived) return;
    const Communicator& ranks = mesh_.communicator(mask);
    if (ranks.size() < 2 || std::ranges::any_of(agreed_, [mask](unsigned one) { return (mask & ~one) == 0; })) return;
    agree_on_cuts(ranks, cuts_);
    agreed_.push_back(mask);
  }
  /// The same over all ranks of the mesh, and over those that hold other pieces.
  void agree() const { agree((1u << MeshType::rank) - 1); }
  void agree_between_pieces() const {
    unsigned mask = 0;
    for (int d = 0; d < Rank; ++d) mask |= pieces_.mask({d});
    agree(mask);
  }

  const DeviceMesh<MeshType>& mesh() const { return mesh_; }
  const Decomposition& decomposition() const { return pieces_; }
  const std::array<Cut, Rank>& cuts() const { return cuts_; }
  const Cut& cut(int d) const { return cuts_[static_cast<std::size_t>(d)]; }
  index_t extent(int d) const { return cut(d).extent(); }
  const Interval& owned(int d) const { return owned_[static_cast<std::size_t>(d)]; }

  bool operator==(const Shape& other) const {
    return this == &other || (mesh_ == other.mesh_ && pieces_ == other.pieces_ && cuts_ == other.cuts_);
  }

 private:
  DeviceMesh<MeshType> mesh_;
  std::array<Cut, Rank> cuts_;
  Decomposition pieces_;
  std::array<Interval, Rank> owned_{};
  Origin origin_;
  mutable std::vector<unsigned> agreed_;  ///< masks of mesh dimensions over which all ranks have the same cuts
};

}  // namespace halogen::detail
