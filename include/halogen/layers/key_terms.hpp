// What attention is told of keys beside what they are: a mask of points that take part, or a bias of their logits.
//
//   MultiheadAttention<C, H>{}(x, KeyMask{sea})
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

/// Which keys take part: those at whose points `value`, of the keys' resolution, is not 0. Of one channel, or of one
/// for each head. Not even NaN of other keys reaches a query; a query that sees no key has 0. Each rank holds it of all
/// points.
struct KeyMask {
  Traced value;
};
/// The same, but `value` is added to the logits of its key; it has a gradient.
struct KeyBias {
  Traced value;
};

namespace detail {

/// What is told of keys beside their positions.
enum class KeyTerm { none, mask, bias };
template <class X>
inline constexpr KeyTerm key_term = KeyTerm::none;
template <>
inline constexpr KeyTerm key_term<KeyMask> = KeyTerm::mask;
template <>
inline constexpr KeyTerm key_term<KeyBias> = KeyTerm::bias;
/// Of one at most.
template <class... X>
constexpr KeyTerm term_of() {
  KeyTerm found = KeyTerm::none;
  ((found = key_term<X>), ...);
  return found;
}
template <class X>
concept TellsOfKeys = key_term<X> != KeyTerm::none;

}  // namespace detail
}  // namespace halogen
