// Additional inputs of attention about its keys: a mask of the points that take part, or a bias of their logits.
//
//   MultiheadAttention<C, H>{}(x, KeyMask{sea})
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

/// The keys at points where `value` is not 0 take part. `value` has the keys' resolution, and one channel or one for
/// each head. Other keys have no effect on a query, even if they are NaN. The result of a query that sees no key is 0.
/// Each rank holds the mask of all points.
struct KeyMask {
  Traced value;
};
/// The same, but `value` is added to the logits of its key; it has a gradient.
struct KeyBias {
  Traced value;
};

namespace detail {

/// The kind of additional input about keys.
enum class KeyTerm { none, mask, bias };
template <class X>
inline constexpr KeyTerm key_term = KeyTerm::none;
template <>
inline constexpr KeyTerm key_term<KeyMask> = KeyTerm::mask;
template <>
inline constexpr KeyTerm key_term<KeyBias> = KeyTerm::bias;
/// The kind of the term, if there is one. At most one is allowed.
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
