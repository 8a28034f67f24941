// The numbers of a field's points in the order of flatten_pieces. That order depends on the mesh, but the numbers do
// not. A bias of relative positions and dropout use the numbers, so they do not depend on the mesh.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "halogen/attention/pair_numbers.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen::detail {

/// A point's number is `first` plus the sum of its global indices times `stride`. `listed` other numbers, 0, 1 and so
/// on, come before all points.
struct Numbering {
  std::array<index_t, 2 + spatial_dimensions> stride{};
  int first = 0, listed = 0;
  bool operator==(const Numbering&) const = default;
};

template <int Rank>
struct SequenceNumbersAsked {
  FieldPlace<Rank> place;
  Numbering numbering;
};
template <int Rank>
struct SequenceNumbersKey {
  FieldPlaceKey<Rank> place;
  Numbering numbering;

  explicit SequenceNumbersKey(const SequenceNumbersAsked<Rank>& asked)
      : place(asked.place), numbering(asked.numbering) {}
  bool operator==(const SequenceNumbersAsked<Rank>& asked) const {
    return place == asked.place && numbering == asked.numbering;
  }
};

/// For dimension A and all later ones of a field Apart, which flatten_pieces<A, last> joins.
template <int A, class Apart>
std::vector<int> numbers_in_pieces(const typename Apart::Shape& shape, const Numbering& numbering) {
  const Decomposition joined = shape.decomposition().joined(A, Apart::rank - 1);
  std::vector<int> numbers(static_cast<std::size_t>(numbering.listed));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (int part = 0; part < joined.parts(A); ++part) {
    const int rank = joined.with_part(0, A, part);
    const auto add = [&](const auto& self, int d, index_t number) -> void {
      if (d == Apart::rank) return numbers.push_back(static_cast<int>(number));
      const auto here = shape.cuts()[static_cast<std::size_t>(d)].piece(shape.decomposition().part(rank, d));
      for (index_t i = here.begin; i < here.end; ++i)
        self(self, d + 1, number + i * numbering.stride[static_cast<std::size_t>(d)]);
    };
    add(add, A, numbering.first);
  }
  return numbers;
}

/// One more than the largest number. Throws CollectiveError if 4 bytes are not enough for it.
template <int A, class Apart>
index_t count_of_numbers(const typename Apart::Shape& shape, const Numbering& numbering) {
  index_t count = 1 + numbering.first;
  for (int d = A; d < Apart::rank; ++d)
    count += std::max<index_t>(shape.cuts()[static_cast<std::size_t>(d)].extent() - 1, 0) *
             numbering.stride[static_cast<std::size_t>(d)];
  if (count > std::numeric_limits<int>::max())
    throw CollectiveError("attention: " + std::to_string(count) +
                          " points are more than dropout and relative positions number, 2147483647");
  return count;
}

/// Where kernels read them.
inline PositionTable position_table(const std::vector<int>& numbers) {
  PositionTable made(Kokkos::View<int*, memory_space>(
      Kokkos::view_alloc("halogen::numbers", Kokkos::WithoutInitializing), numbers.size()));
  Kokkos::deep_copy(
      made, Kokkos::View<const int*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(numbers.data(), numbers.size()));
  return made;
}

/// The same, where kernels read them. Every rank has the numbers of all points, 4 bytes each, and computes them without
/// communication, once for a shape. All are below count_of_numbers.
template <int A, class Apart>
PositionTable sequence_numbers(const typename Apart::Shape& shape, const Numbering& numbering) {
  count_of_numbers<A, Apart>(shape, numbering);
  const FieldPlace<Apart::rank> place{shape.decomposition(), shape.cuts(), nullptr};
  return shape.mesh().template prepared<PreparedByMesh<SequenceNumbersKey<Apart::rank>, PositionTable>>().get(
      SequenceNumbersAsked<Apart::rank>{place, numbering},
      [&] { return std::make_unique<PositionTable>(position_table(numbers_in_pieces<A, Apart>(shape, numbering))); });
}

/// The points in the order of their numbers; made once for a shape.
template <int A, class Apart>
PositionOrder sequence_order(const typename Apart::Shape& shape, const Numbering& numbering) {
  const FieldPlace<Apart::rank> place{shape.decomposition(), shape.cuts(), nullptr};
  return shape.mesh().template prepared<PreparedByMesh<SequenceNumbersKey<Apart::rank>, PositionOrder>>().get(
      SequenceNumbersAsked<Apart::rank>{place, numbering}, [&] {
        std::vector<int> numbers = numbers_in_pieces<A, Apart>(shape, numbering), positions(numbers.size());
        auto order = std::make_unique<PositionOrder>();
        if (std::ranges::is_sorted(numbers)) return order;
        std::iota(positions.begin(), positions.end(), 0);
        std::ranges::sort(positions, {}, [&](int i) { return numbers[static_cast<std::size_t>(i)]; });
        std::ranges::sort(numbers);
        order->positions = position_table(positions), order->numbers = position_table(numbers);
        return order;
      });
}

}  // namespace halogen::detail
