// Placements, one per mesh dimension as in DTensor, and the duality of their gradients.
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <type_traits>

namespace halogen {

struct Sum {};

/// Every rank of the mesh dimension holds the whole tensor, equal on all.
struct Replicate {};

/// The mesh dimension cuts tensor dimension Dim into pieces, possibly uneven, one per coordinate.
template <int Dim>
struct Shard {
  static_assert(Dim >= 0, "Shard<Dim>: tensor dimensions count from 0");
};

/// Every rank holds a summand; the value is the reduction over the mesh dimension.
template <class Op = Sum>
struct Partial {};

/// Placement as a value, for constexpr code: Replicate -1, Partial -2, Shard<D> D.
inline constexpr int replicate_code = -1;
inline constexpr int partial_code = -2;

template <class Placement>
inline constexpr int placement_code = -3;
template <>
inline constexpr int placement_code<Replicate> = replicate_code;
template <int Dim>
inline constexpr int placement_code<Shard<Dim>> = Dim;
template <class Op>
inline constexpr int placement_code<Partial<Op>> = partial_code;

/// And back. What is no Shard holds all it needs: Replicate.
template <int Code>
struct placement_of {
  using type = Shard<Code>;
};
template <int Code>
  requires(Code < 0)
struct placement_of<Code> {
  using type = Replicate;
};
template <>
struct placement_of<partial_code> {
  using type = Partial<Sum>;
};

template <class P>
concept Placement = placement_code<P> != -3;

/// Placement of the gradient of a value with placement P: R -> P(sum), P -> R, S(d) -> S(d).
template <Placement P>
struct gradient_placement {
  using type = P;
};
template <>
struct gradient_placement<Replicate> {
  using type = Partial<Sum>;
};
template <class Op>
struct gradient_placement<Partial<Op>> {
  using type = Replicate;
};
template <Placement P>
using gradient_placement_t = typename gradient_placement<P>::type;

inline std::string placement_name(int code) {
  if (code == replicate_code) return "Replicate";
  if (code == partial_code) return "Partial";
  return "Shard<" + std::to_string(code) + ">";
}

}  // namespace halogen
