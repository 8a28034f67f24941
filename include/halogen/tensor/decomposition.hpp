// Which piece of which tensor dimension each rank of a mesh holds; known everywhere without communication.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "halogen/core/config.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/placement/placement.hpp"

namespace halogen {
namespace detail {

/// Margin of one dimension: points stored before and after the owned ones.
struct Margin {
  index_t lo = 0, hi = 0;

  /// To hold all of `needed` beside the owned points.
  void widen(const Interval& own, const Interval& needed) {
    lo = std::max(lo, own.begin - needed.begin);
    hi = std::max(hi, needed.end - own.end);
  }
};

}  // namespace detail

/// Mesh extents and one placement code per mesh dimension. Several mesh dimensions may cut one tensor dimension;
/// pieces then count row-major over them.
class Decomposition {
 public:
  static constexpr int max_mesh_rank = 8;

  Decomposition() = default;
  /// Names point into the mesh's type, which outlives everything.
  constexpr Decomposition(std::span<const int> extents, std::span<const int> codes,
                          std::span<const std::string_view> names)
      : rank_(static_cast<int>(extents.size())) {
    if (extents.size() > max_mesh_rank) throw std::length_error("a mesh has at most 8 dimensions");
    std::copy(extents.begin(), extents.end(), extents_.begin());
    std::copy(codes.begin(), codes.end(), codes_.begin());
    std::copy(names.begin(), names.end(), names_.begin());
  }

  /// One per mesh dimension (placement_code).
  std::span<const int> codes() const { return std::span(codes_).first(static_cast<std::size_t>(rank_)); }

  /// Pieces of tensor dimension `dimension`; 1 where no mesh dimension cuts it.
  int parts(int dimension) const;

  /// The piece of `dimension` that `rank` holds.
  int part(int rank, int dimension) const;

  /// The rank that differs from `rank` only in holding piece `part` of `dimension`.
  int with_part(int rank, int dimension, int part) const;

  /// The number of a rank among those that differ from it in the mesh dimensions of `mask` only, in their order, and
  /// the rank among these that has a number.
  int number_in(int rank, unsigned mask) const;
  int with_number(int rank, unsigned mask, int number) const;

  /// Mesh dimensions that cut one of the tensor dimensions, as DeviceMesh::communicator takes them.
  unsigned mask(std::initializer_list<int> dimensions) const;

  /// The same with tensor dimensions [first, last] as one, `first`, whose pieces count row-major over all that cut
  /// them.
  Decomposition joined(int first, int last) const;

  /// Ranks of the sub-mesh that `mask` spans.
  int size(unsigned mask) const;

  /// "2 x 3 (height x width)"
  std::string text() const;

  bool operator==(const Decomposition&) const = default;

 private:
  using Numbers = std::array<int, max_mesh_rank>;

  Numbers coordinates(int rank) const;

  int rank_ = 0;
  Numbers extents_{}, codes_{};
  std::array<std::string_view, max_mesh_rank> names_{};
};

#if HALOGEN_BODIES
HALOGEN_INLINE int Decomposition::parts(int dimension) const {
  int parts = 1;
  for (int i = 0; i < rank_; ++i)
    if (codes_[i] == dimension) parts *= extents_[i];
  return parts;
}

HALOGEN_INLINE int Decomposition::part(int rank, int dimension) const {
  const Numbers coordinate = coordinates(rank);
  int part = 0;
  for (int i = 0; i < rank_; ++i)
    if (codes_[i] == dimension) part = part * extents_[i] + coordinate[i];
  return part;
}

HALOGEN_INLINE int Decomposition::with_part(int rank, int dimension, int part) const {
  Numbers coordinate = coordinates(rank);
  for (int i = rank_; i-- > 0;)
    if (codes_[i] == dimension) {
      coordinate[i] = part % extents_[i];
      part /= extents_[i];
    }
  int result = 0;
  for (int i = 0; i < rank_; ++i) result = result * extents_[i] + coordinate[i];
  return result;
}

HALOGEN_INLINE int Decomposition::number_in(int rank, unsigned mask) const {
  const Numbers coordinate = coordinates(rank);
  int number = 0;
  for (int i = 0; i < rank_; ++i)
    if (mask >> i & 1) number = number * extents_[i] + coordinate[i];
  return number;
}

HALOGEN_INLINE int Decomposition::with_number(int rank, unsigned mask, int number) const {
  Numbers coordinate = coordinates(rank);
  for (int i = rank_; i-- > 0;)
    if (mask >> i & 1) {
      coordinate[i] = number % extents_[i];
      number /= extents_[i];
    }
  int result = 0;
  for (int i = 0; i < rank_; ++i) result = result * extents_[i] + coordinate[i];
  return result;
}

HALOGEN_INLINE unsigned Decomposition::mask(std::initializer_list<int> dimensions) const {
  unsigned mask = 0;
  for (int i = 0; i < rank_; ++i)
    for (int dimension : dimensions)
      if (codes_[i] == dimension) mask |= 1u << i;
  return mask;
}

HALOGEN_INLINE Decomposition Decomposition::joined(int first, int last) const {
  Decomposition result = *this;
  for (int i = 0; i < rank_; ++i)
    if (codes_[i] > first) result.codes_[i] = codes_[i] <= last ? first : codes_[i] - (last - first);
  return result;
}

HALOGEN_INLINE int Decomposition::size(unsigned mask) const {
  int size = 1;
  for (int i = 0; i < rank_; ++i)
    if (mask >> i & 1) size *= extents_[i];
  return size;
}

HALOGEN_INLINE std::string Decomposition::text() const {
  std::string numbers, words;
  for (int i = 0; i < rank_; ++i) {
    numbers += (i ? " x " : "") + std::to_string(extents_[i]);
    words += (i ? " x " : "") + std::string(names_[i]);
  }
  return numbers + " (" + words + ")";
}

HALOGEN_INLINE auto Decomposition::coordinates(int rank) const -> Numbers {
  Numbers coordinate{};
  for (int i = rank_; i-- > 0;) {
    coordinate[i] = rank % extents_[i];
    rank /= extents_[i];
  }
  return coordinate;
}
#endif

}  // namespace halogen
