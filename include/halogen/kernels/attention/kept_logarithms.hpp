// What attention keeps of each query and head for backward: the logarithm l of the sum of exp(scale q k + bias), as the
// stored (rounded) value, and the rest that rounding removed, so that bfloat16 loses nothing of it.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/core/half.hpp"

namespace halogen::kernels {

inline constexpr int kept_of_head = 2;  ///< numbers of a query

template <class S>
struct KeptLogarithm {
  using T = compute_type<S>;
  S rounded, rest;

  HALOGEN_FUNCTION static KeptLogarithm of(T logarithm) {
    const S rounded = static_cast<S>(logarithm);
    const T rest = logarithm - T(rounded);
    return {rounded, rest == rest ? static_cast<S>(rest) : S(0)};  // -infinity, of a query without keys, has no rest
  }
  HALOGEN_FUNCTION T whole() const { return T(rounded) + T(rest); }
};

}  // namespace halogen::kernels
