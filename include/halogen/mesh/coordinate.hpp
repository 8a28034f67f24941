// Rank <-> coordinate on a mesh, row-major: the last mesh dimension varies fastest.
#pragma once

#include <array>
#include <cstddef>

namespace halogen {

template <std::size_t Rank>
constexpr std::array<int, Rank> coordinate_of(int rank, const std::array<int, Rank>& extents) {
  std::array<int, Rank> coordinate{};
  for (std::size_t i = Rank; i-- > 0;) {
    coordinate[i] = rank % extents[i];
    rank /= extents[i];
  }
  return coordinate;
}

template <std::size_t Rank>
constexpr int rank_at(const std::array<int, Rank>& coordinate, const std::array<int, Rank>& extents) {
  int rank = 0;
  for (std::size_t i = 0; i < Rank; ++i) rank = rank * extents[i] + coordinate[i];
  return rank;
}

}  // namespace halogen
