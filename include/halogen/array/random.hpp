// Random numbers in expressions: rand_like(u, generator), randn_like(u, generator). A number depends only on the
// generator and the global index of its point, not on the mesh, the cuts, or other random numbers: those of rand_like,
// of randn_like and of layers are not related, though seed, step and stream be the same. Nothing is stored; a shifted
// expression has the neighbour's number. It has no gradient.
//
//   noise = hg::randn_like(x, {.seed = 7, .step = step});                  // noise: a field; the numbers have no mesh
//   Field noisy = x + sigma * hg::randn_like(x, {.seed = 7, .step = step, .stream = 1});
#pragma once

#include "halogen/array/evaluate/assign.hpp"
#include "halogen/array/expression/pointwise.hpp"
#include "halogen/core/philox.hpp"

namespace halogen {
namespace detail {
namespace types {

/// A uniform number from two words of bits, rounded down: what would round to nearest could be 1.
struct Uniform {
  /// Digits: significant bits of the numbers that it is stored in.
  template <class T, int Digits>
  KOKKOS_FUNCTION static T of(const std::array<std::uint32_t, 4>& bits) {
    if constexpr (std::is_same_v<T, double>) {
      return unit_of(bits[0], bits[1]);
    } else {
      const float number = static_cast<float>(bits[0] >> 8) * 0x1p-24f;
      constexpr std::uint32_t kept = ~std::uint32_t{0} << (24 - Digits);
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, number) & kept);
    }
  }
};

/// A normal number from two uniform numbers (Box and Muller, "A Note on the Generation of Random Normal Deviates",
/// 1958).
struct Normal {
  template <class T, int = 24>
  KOKKOS_FUNCTION static T of(const std::array<std::uint32_t, 4>& bits) {
    const double radius = Kokkos::sqrt(-2 * Kokkos::log(1 - unit_of(bits[0], bits[1])));
    return static_cast<T>(radius * Kokkos::cos(2 * Kokkos::numbers::pi * unit_of(bits[2], bits[3])));
  }
};

/// The random number of a point, from its row-major index in the whole field.
template <class Number, class T, int Digits, int Rank>
struct RandomAt {
  Generator generator;
  RandomPurpose purpose;
  index_t extents[Rank];

  template <class... I>
  KOKKOS_FUNCTION T operator()(I... index) const {
    const index_t at[] = {static_cast<index_t>(index)...};
    index_t row_major = at[0] + generator.samples_before;
    for (int d = 1; d < Rank; ++d) row_major = row_major * extents[d] + at[d];
    return Number::template of<T, Digits>(random_bits(generator, static_cast<std::uint64_t>(row_major), purpose));
  }
};

}  // namespace types
using types::Uniform, types::Normal, types::RandomAt;

/// Significant bits of the numbers that an expression like x is stored in; of two-byte expressions the fewest.
template <class X>
constexpr int random_digits() {
  if constexpr (is_sharded<X>) {
    using T = typename X::value_type;
    return std::is_same_v<T, bfloat16> ? 8 : std::is_same_v<T, float16> ? 11 : 24;
  } else {
    return field_bytes_of<expression_of<X>, true> == 2 ? 8 : 24;
  }
}

template <class Number, class X>
auto random_like(const X& x, const Generator& generator, RandomPurpose purpose) {
  const auto expression = as_expression(x);
  constexpr int rank = placed_at<X>::rank;
  using T = std::conditional_t<std::is_same_v<typename expression_of<X>::value_type, double>, double, float>;
  RandomAt<Number, T, random_digits<X>(), rank> at{generator, purpose, {}};
  for (int d = 0; d < rank; ++d) at.extents[d] = expression.extent(d);
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return halogen::apply(at, global_index<static_cast<int>(D)>(expression)...);
  }(std::make_index_sequence<rank>{});
}

}  // namespace detail

/// Uniform in [0, 1), with u's grid and value type; like integers they are floats. Those like two-byte numbers are
/// rounded down to such numbers. A float that is cast to fewer bytes is rounded to nearest, perhaps to 1.
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
