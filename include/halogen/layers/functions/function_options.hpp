// The options of Function, and what a function knows of its place.
#pragma once

#include <array>
#include <optional>

#include "halogen/layers/functions/functor.hpp"
#include "halogen/run/at.hpp"

namespace halogen {

/// Option of Function: the values of these numbers, counted from 0, are vectors for each sample.
template <int... Numbers>
struct TakesVectors {};
/// Option of Function: the values of these numbers may have other resolutions than the result.
template <int... Numbers>
struct TakesAnyResolution {};
/// Option of Function: its result is a vector for each sample.
struct ToVector {};
/// Option of Function: f draws random numbers.
struct Draws {};

/// What a Function knows in a dry run: this rank's layout, and the level and channels of each value.
struct FunctionPlace {
  const Layout& layout;
  std::array<int, 4> level, channels;
};

namespace detail {

struct FunctionOptions {
  int channels = 0;      ///< of the result; 0: as many as the first value has
  unsigned vectors = 0;  ///< a bit for each value that is a vector
  unsigned apart = 0;    ///< a bit for each value of any resolution
  bool to_vector = false, draws = false;

  template <int Count>
  constexpr void set(Channels<Count>) {
    channels = Count;
  }
  template <int... Numbers>
  constexpr void set(TakesVectors<Numbers...>) {
    vectors = ((1U << Numbers) | ... | 0U);
  }
  template <int... Numbers>
  constexpr void set(TakesAnyResolution<Numbers...>) {
    apart = ((1U << Numbers) | ... | 0U);
  }
  constexpr void set(ToVector) { to_vector = true; }
  constexpr void set(Draws) { draws = true; }
  constexpr bool is_vector(int value) const { return (vectors >> value & 1U) != 0; }
  constexpr bool is_free(int value) const { return (apart >> value & 1U) != 0; }
};
template <class... Options>
constexpr FunctionOptions function_options() {
  FunctionOptions options;
  (options.set(Options{}), ...);
  return options;
}

/// The generator of a node's random numbers in this step, on the host; empty if the node does not draw.
inline std::optional<Generator> generator_of(const RandomStream& random) {
  if (!random.draws()) return std::nullopt;
  index_t step = 0;
  Kokkos::deep_copy(Kokkos::View<index_t, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&step),
                    Kokkos::View<const index_t, memory_space, Kokkos::MemoryUnmanaged>(random.step));
  return Generator{random.seed, static_cast<std::uint64_t>(step), random.stream, true, random.samples_before};
}

}  // namespace detail
}  // namespace halogen
