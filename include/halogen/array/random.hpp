// Random numbers in expressions: rand_like(u, generator), randn_like(u, generator). A number depends only on the
// generator and the global index of its point, not on the mesh, the cuts, or other random numbers: those of rand_like,
// of randn_like and of layers are not related, though seed, step and stream be the same. Nothing is stored; a shifted
// expression has the neighbour's number. It has no gradient.
//
//   noise = hg::randn_like(x, {.seed = 7, .step = step});                  // noise: a field; the numbers have no mesh
//   Field noisy = x + sigma * hg::randn_like(x, {.seed = 7, .step = step, .stream = 1});
#pragma once

#include "halogen/array/pointwise.hpp"
#include "halogen/core/philox.hpp"

namespace halogen {
namespace detail {
namespace types {

/// A uniform number from two words of bits.
struct Uniform {
  template <class T>
  KOKKOS_FUNCTION static T of(const std::array<std::uint32_t, 4>& bits) {
    if constexpr (sizeof(T) < 8)
      return static_cast<T>(static_cast<float>(bits[0] >> 8) * 0x1p-24f);
    else
      return unit_of(bits[0], bits[1]);
  }
};

/// A normal number from two uniform numbers (Box and Muller, "A Note on the Generation of Random Normal Deviates",
/// 1958).
struct Normal {
  template <class T>
  KOKKOS_FUNCTION static T of(const std::array<std::uint32_t, 4>& bits) {
    const double radius = Kokkos::sqrt(-2 * Kokkos::log(1 - unit_of(bits[0], bits[1])));
    return static_cast<T>(radius * Kokkos::cos(2 * Kokkos::numbers::pi * unit_of(bits[2], bits[3])));
  }
};

/// The random number of a point, from its row-major index in the whole field.
template <class Number, class T, int Rank>
struct RandomAt {
  Generator generator;
  RandomPurpose purpose;
  index_t extents[Rank];

  template <class... I>
  KOKKOS_FUNCTION T operator()(I... index) const {
    const index_t at[] = {static_cast<index_t>(index)...};
    index_t row_major = 0;
    for (int d = 0; d < Rank; ++d) row_major = row_major * extents[d] + at[d];
    return Number::template of<T>(random_bits(generator, static_cast<std::uint64_t>(row_major), purpose));
  }
};

}  // namespace types
using types::Uniform, types::Normal, types::RandomAt;

template <class Number, class X>
auto random_like(const X& x, const Generator& generator, RandomPurpose purpose) {
  const auto expression = as_expression(x);
  constexpr int rank = placed_at<X>::rank;
  RandomAt<Number, compute_type<typename expression_of<X>::value_type>, rank> at{generator, purpose, {}};
  for (int d = 0; d < rank; ++d) at.extents[d] = expression.extent(d);
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return halogen::apply(at, global_index<static_cast<int>(D)>(x)...);
  }(std::make_index_sequence<rank>{});
}

}  // namespace detail

/// Uniform in [0, 1), with u's grid and value type.
template <FieldOperand X>
auto rand_like(const X& u, const Generator& generator) {
  detail::require_made("rand_like", u);
  return detail::random_like<detail::Uniform>(u, generator, RandomPurpose::uniform);
}
/// Normal, with mean 0 and deviation 1.
template <FieldOperand X>
auto randn_like(const X& u, const Generator& generator) {
  detail::require_made("randn_like", u);
  return detail::random_like<detail::Normal>(u, generator, RandomPurpose::normal);
}

}  // namespace halogen
