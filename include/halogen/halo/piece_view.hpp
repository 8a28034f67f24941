// The views that collectives on pieces take, and the sentences for those of another shape.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/core/config.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// A view that the collectives on pieces take: row-major, in the memory where fields live.
template <class V, class T, int Rank>
concept PieceView = Kokkos::is_view_v<V> && static_cast<int>(V::rank()) == Rank &&
                    std::is_same_v<typename V::non_const_value_type, T> &&
                    (std::is_same_v<typename V::array_layout, Kokkos::LayoutRight> || Rank <= 1) &&
                    std::is_same_v<typename V::memory_space, memory_space>;

namespace detail {

/// `all_gather_v on "world": `, the beginning of its sentences.
std::string named(const char* operation, const Communicator& comm);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string named(const char* operation, const Communicator& comm) {
  return std::string(operation) + " on \"" + std::string(comm.label()) + "\": ";
}
#endif

std::string shape_text(std::span<const index_t> extents);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string shape_text(std::span<const index_t> extents) {
  std::string text;
  for (const index_t extent : extents) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}
#endif

template <class V>
std::array<index_t, V::rank()> extents_of(const V& view) {
  std::array<index_t, V::rank()> extents;
  for (std::size_t d = 0; d < V::rank(); ++d) extents[d] = static_cast<index_t>(view.extent(d));
  return extents;
}

/// Collective, one all_reduce: throws the same CollectiveError on all ranks where they were given other numbers.
/// sentence(i, least, greatest) speaks of the first that differs.
template <class Sentence>
void check_same_numbers(const Communicator& comm, const std::vector<index_t>& numbers, Sentence sentence) {
  std::vector<std::int64_t> bounds;
  for (const index_t number : numbers) bounds.insert(bounds.end(), {number, ~number});
  comm.all_reduce(bounds.data(), bounds.size(), ReduceOp::max);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (bounds[2 * i] != ~bounds[2 * i + 1])
      throw CollectiveError(sentence(i, std::to_string(~bounds[2 * i + 1]), std::to_string(bounds[2 * i])));
}

/// Collective, one all_reduce: the rank that all name as root. Throws CollectiveError where they differ, or for none.
int checked_root(const char* operation, const Communicator& comm, int root);
#if HALOGEN_BODIES
HALOGEN_INLINE int checked_root(const char* operation, const Communicator& comm, int root) {
  check_same_numbers(comm, {root}, [&](std::size_t, const std::string& a, const std::string& b) {
    return named(operation, comm) + "the root is " + a + " on one rank and " + b + " on another: name one root";
  });
  if (root < 0 || root >= comm.size())
    throw CollectiveError(named(operation, comm) + "the root is " + std::to_string(root) + ", but there are " +
                          std::to_string(comm.size()) + " ranks: name one of 0.." + std::to_string(comm.size() - 1));
  return root;
}
#endif

/// Throws Error where a view has another shape than promised, or gaps.
template <class V, std::size_t Rank>
void check_shape(const char* operation, const Communicator& comm, const char* what, const V& view,
                 const std::array<index_t, Rank>& extents) {
  static_assert(PieceView<V, typename V::non_const_value_type, static_cast<int>(Rank)>,
                "a row-major Kokkos::View in memory_space, of the tensor's rank");
  const std::array<index_t, Rank> given = extents_of(view);
  if (given == extents && view.span_is_contiguous()) return;
  const std::string own = named(operation, comm) + "the " + what + " of rank " + std::to_string(comm.rank());
  if (given != extents)
    throw Error(own + " is " + shape_text(given) + ", but " + shape_text(extents) +
                " by its sizes: give a view of that shape");
  throw Error(own + " has gaps in memory: give a copy without them");
}

/// A new view like V, of other extents.
template <class V>
using owning_view = Kokkos::View<typename V::non_const_data_type, Kokkos::LayoutRight, memory_space>;
template <class V, std::size_t Rank>
owning_view<V> view_of(const std::string& label, const std::array<index_t, Rank>& extents) {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return owning_view<V>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), extents[D]...);
  }(std::make_index_sequence<Rank>{});
}

}  // namespace detail

}  // namespace halogen
