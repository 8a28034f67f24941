// The type of a mesh, and the two-way map between ranks and coordinates.
#include "halogen/mesh/mesh.hpp"

#include "halogen/mesh/coordinate.hpp"

namespace {

using namespace halogen;

using Volume = Mesh<"data", "height", "width">;
static_assert(Volume::rank == 3);
static_assert(Volume::names[0] == "data" && Volume::names[1] == "height" && Volume::names[2] == "width");
static_assert(Volume::index_of<"data"> == 0 && Volume::index_of<"height"> == 1 && Volume::index_of<"width"> == 2);
static_assert(Mesh<"h">::rank == 1 && Mesh<"h">::index_of<"h"> == 0);
static_assert(Mesh<"a", "ab">::index_of<"ab"> == 1);  // a prefix is another name

template <fixed_string A, fixed_string B>
struct same_text {
  static constexpr bool value = A == B;
};
static_assert(same_text<"width", "width">::value && !same_text<"width", "height">::value);
static_assert(!same_text<"width", "widt">::value && !same_text<"", "x">::value);
static_assert(fixed_string("width").view().size() == 5);

// Row-major: the last dimension varies fastest.
static_assert(rank_at<3>({0, 0, 1}, {2, 3, 4}) == 1);
static_assert(rank_at<3>({0, 1, 0}, {2, 3, 4}) == 4);
static_assert(rank_at<3>({1, 0, 0}, {2, 3, 4}) == 12);
static_assert(coordinate_of<3>(23, {2, 3, 4}) == std::array{1, 2, 3});
static_assert(coordinate_of<1>(5, {7}) == std::array{5});

/// Each is the other's inverse, and every coordinate lies in the mesh.
template <std::size_t Rank>
constexpr bool inverse(const std::array<int, Rank>& extents) {
  int ranks = 1;
  for (const int extent : extents) ranks *= extent;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::array<int, Rank> coordinate = coordinate_of(rank, extents);
    for (std::size_t d = 0; d < Rank; ++d)
      if (coordinate[d] < 0 || coordinate[d] >= extents[d]) return false;
    if (rank_at(coordinate, extents) != rank) return false;
  }
  return true;
}
static_assert(inverse<1>({1}) && inverse<1>({64}));
static_assert(inverse<2>({2, 3}) && inverse<2>({3, 2}) && inverse<2>({1, 5}) && inverse<2>({5, 1}));
static_assert(inverse<3>({2, 3, 5}) && inverse<3>({1, 1, 1}) && inverse<4>({2, 1, 3, 2}));

}  // namespace
