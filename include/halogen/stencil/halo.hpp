// The halo algebra: how far an operation reads beside its own points, in one dimension.
#pragma once

#include <algorithm>

namespace halogen {

/// Points read before (lo) and after (hi) the point that is computed. Negative: not even the point itself.
struct Halo {
  int lo = 0, hi = 0;
  constexpr bool operator==(const Halo&) const = default;
};

/// Inputs used side by side.
constexpr Halo hull(const Halo& a, const Halo& b) { return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)}; }

/// Successive stages: the second reads the first's output.
constexpr Halo chain(const Halo& first, const Halo& second) { return {first.lo + second.lo, first.hi + second.hi}; }

}  // namespace halogen
