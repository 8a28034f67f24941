// Static and run-time extents of a tensor, as a type.
#pragma once

#include <array>

#include "halogen/core/config.hpp"

namespace halogen {

/// An extent that only the run knows, as std::dynamic_extent in mdspan.
inline constexpr int dyn = -1;

/// Tensor<float, dyn, 16, dyn, dyn>: value type and extents, (N, C, H, W) for networks. Carries no storage.
/// Extents known to the model (channels) are static, so that a wrong one does not compile.
template <class T, int... Extents>
struct Tensor {
  static_assert(((Extents == dyn || Extents > 0) && ...), "an extent is positive or halogen::dyn");
  using value_type = T;
  static constexpr int rank = sizeof...(Extents);
  static constexpr std::array<int, rank> extents{Extents...};
};

}  // namespace halogen
