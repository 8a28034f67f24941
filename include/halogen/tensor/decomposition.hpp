// Which piece of which tensor dimension each rank of a mesh holds; known everywhere without communication.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "halogen/placement/chunk.hpp"
#include "halogen/placement/placement.hpp"

namespace halogen {

/// Mesh extents and one placement code per mesh dimension. Several mesh dimensions may cut one tensor dimension;
/// pieces then count row-major over them.
class Decomposition {
 public:
  Decomposition() = default;
  Decomposition(std::span<const int> extents, std::span<const int> codes, std::span<const std::string_view> names)
      : extents_(extents.begin(), extents.end()),
        codes_(codes.begin(), codes.end()),
        names_(names.begin(), names.end()) {}

  /// Pieces of tensor dimension `dimension`; 1 where no mesh dimension cuts it.
  int parts(int dimension) const {
    int parts = 1;
    for (std::size_t i = 0; i < extents_.size(); ++i)
      if (codes_[i] == dimension) parts *= extents_[i];
    return parts;
  }

  /// The piece of `dimension` that `rank` holds.
  int part(int rank, int dimension) const {
    const std::vector<int> coordinate = coordinates(rank);
    int part = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i)
      if (codes_[i] == dimension) part = part * extents_[i] + coordinate[i];
    return part;
  }

  /// The rank that differs from `rank` only in holding piece `part` of `dimension`.
  int with_part(int rank, int dimension, int part) const {
    std::vector<int> coordinate = coordinates(rank);
    for (std::size_t i = extents_.size(); i-- > 0;)
      if (codes_[i] == dimension) {
        coordinate[i] = part % extents_[i];
        part /= extents_[i];
      }
    int result = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i) result = result * extents_[i] + coordinate[i];
    return result;
  }

  /// Mesh dimensions that cut one of the tensor dimensions, as DeviceMesh::communicator takes them.
  unsigned mask(std::initializer_list<int> dimensions) const {
    unsigned mask = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i)
      for (int dimension : dimensions)
        if (codes_[i] == dimension) mask |= 1u << i;
    return mask;
  }

  /// Ranks of the sub-mesh that `mask` spans.
  int size(unsigned mask) const {
    int size = 1;
    for (std::size_t i = 0; i < extents_.size(); ++i)
      if (mask >> i & 1) size *= extents_[i];
    return size;
  }

  /// "2 x 3 (height x width)"
  std::string text() const {
    std::string numbers, words;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      numbers += (i ? " x " : "") + std::to_string(extents_[i]);
      words += (i ? " x " : "") + names_[i];
    }
    return numbers + " (" + words + ")";
  }

  bool operator==(const Decomposition&) const = default;

 private:
  std::vector<int> coordinates(int rank) const {
    std::vector<int> coordinate(extents_.size());
    for (std::size_t i = extents_.size(); i-- > 0;) {
      coordinate[i] = rank % extents_[i];
      rank /= extents_[i];
    }
    return coordinate;
  }

  std::vector<int> extents_;
  std::vector<int> codes_;
  std::vector<std::string> names_;
};

}  // namespace halogen
