// The numbers of a field's points in the order of flatten_pieces, which depends on the mesh: so that what goes by a
// point's own place (a bias of relative positions, dropout) does not.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "halogen/array/attention_bias.hpp"
#include "halogen/array/pieces.hpp"
#include "halogen/halo/kept_moves.hpp"

namespace halogen::detail {

/// A point's number is the sum of its global indices times `stride`.
using NumberStrides = std::array<index_t, max_rank>;

template <int Rank>
struct PieceNumbersAsked {
  FieldPlace<Rank> place;
  NumberStrides stride;
};
template <int Rank>
struct PieceNumbersKey {
  FieldPlaceKey<Rank> place;
  NumberStrides stride;

  explicit PieceNumbersKey(const PieceNumbersAsked<Rank>& asked) : place(asked.place), stride(asked.stride) {}
  bool operator==(const PieceNumbersAsked<Rank>& asked) const { return place == asked.place && stride == asked.stride; }
};

/// Of dimensions A and beyond of a field Apart, as flatten_pieces<A, last> makes one of them.
template <int A, class Apart>
std::vector<int> numbers_in_pieces(const typename Apart::Shape& shape, const NumberStrides& stride) {
  const Decomposition joined = shape.decomposition().joined(A, Apart::rank - 1);
  std::vector<int> numbers;
  for (int part = 0; part < joined.parts(A); ++part) {
    const int rank = joined.with_part(0, A, part);
    const auto add = [&](const auto& self, int d, index_t number) -> void {
      if (d == Apart::rank) return numbers.push_back(static_cast<int>(number));
      const auto here = shape.cuts()[static_cast<std::size_t>(d)].piece(shape.decomposition().part(rank, d));
      for (index_t i = here.begin; i < here.end; ++i)
        self(self, d + 1, number + i * stride[static_cast<std::size_t>(d)]);
    };
    add(add, A, 0);
  }
  return numbers;
}

/// One more than the largest number. Throws CollectiveError where it cannot be counted in 4 bytes.
template <int A, class Apart>
index_t count_of_numbers(const typename Apart::Shape& shape, const NumberStrides& stride) {
  index_t count = 1;
  for (int d = A; d < Apart::rank; ++d)
    count += std::max<index_t>(shape.cuts()[static_cast<std::size_t>(d)].extent() - 1, 0) *
             stride[static_cast<std::size_t>(d)];
  if (count > std::numeric_limits<int>::max())
    throw CollectiveError("attention: " + std::to_string(count) +
                          " points are more than dropout and relative positions number, 2147483647");
  return count;
}

using PieceNumbers = Lasting<Kokkos::View<int*, memory_space>>;

/// The same, where kernels read them. Every rank has those of all points, 4 bytes each, and finds them by itself; made
/// once for a shape. All are below count_of_numbers.
template <int A, class Apart>
PieceNumbers piece_numbers(const typename Apart::Shape& shape, const NumberStrides& stride) {
  count_of_numbers<A, Apart>(shape, stride);
  const FieldPlace<Apart::rank> place{shape.decomposition(), shape.cuts(), nullptr};
  return shape.mesh().template kept<KeptMoves<PieceNumbersKey<Apart::rank>, PieceNumbers>>().get(
      PieceNumbersAsked<Apart::rank>{place, stride}, [&] {
        const std::vector<int> numbers = numbers_in_pieces<A, Apart>(shape, stride);
        auto made = std::make_unique<PieceNumbers>(Kokkos::View<int*, memory_space>(
            Kokkos::view_alloc("halogen::numbers", Kokkos::WithoutInitializing), numbers.size()));
        Kokkos::deep_copy(*made, Kokkos::View<const int*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(numbers.data(),
                                                                                                      numbers.size()));
        return made;
      });
}

}  // namespace halogen::detail
