// Which convolutions run by Winograd's F(4 x 4, 3 x 3), and the tile that their halos must hold whole.
#pragma once

#include "halogen/stencil/window.hpp"

namespace halogen {

inline constexpr int winograd_tile = 4;  ///< outputs of one tile in each dimension

/// 3 x 3 windows of stride 1 between at least eight channels on each side, on the host: below that, transforms cost
/// more than the products they save. A function of types alone, so that every rank and mesh computes alike.
constexpr bool uses_winograd(const Window& height, const Window& width, int inputs, int outputs) {
#if defined(__CUDACC__) || (defined(HALOGEN_DEVICE_KERNELS) && HALOGEN_DEVICE_KERNELS > 0)
  constexpr bool on_host = false;
#else
  constexpr bool on_host = true;
#endif
  const auto fits = [](const Window& w) { return w.kernel == 3 && w.stride == 1 && w.dilation == 1; };
  return on_host && fits(height) && fits(width) && inputs >= 8 && outputs >= 8;
}

}  // namespace halogen
