// Which convolutions run by Winograd's F(4 x 4, 3 x 3), F(4, 3) or F(2 x 2, 5 x 5), and the tile that their halos must
// hold whole.
#pragma once

#include "halogen/core/vector_bytes.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen {

inline constexpr int winograd_points = 6;  ///< inputs of one tile, and points of the transform, in each dimension

/// Outputs of one tile in each dimension: 4 of a window of 3, 2 of a window of 5.
constexpr int winograd_tile(int window) { return winograd_points + 1 - window; }

/// Kernels of the host have such tiles, those of a device multiply on tensor cores.
#if defined(__CUDACC__) || (defined(HALOGEN_DEVICE_KERNELS) && HALOGEN_DEVICE_KERNELS > 0)
inline constexpr bool has_winograd = false;
#else
inline constexpr bool has_winograd = true;
#endif

/// The window, 3 or 5, where it runs so, else 0: square windows of stride 1 on the host, between at least eight
/// channels on each side, sixteen for 5 x 5: below that, transforms cost more than the products they save. A function
/// of types alone, so that every rank and mesh computes alike.
constexpr int winograd_window(const Window& height, const Window& width, int inputs, int outputs) {
  const int window = height.kernel, channels = window == 3 ? 8 : 16;
  const auto fits = [&](const Window& w) { return w.kernel == window && w.stride == 1 && w.dilation == 1; };
  const bool has_tile = window == 3 || window == 5;
  return has_winograd && has_tile && fits(height) && fits(width) && inputs >= channels && outputs >= channels ? window
                                                                                                              : 0;
}

/// Whether one of such a window transforms down the columns alone (kernels/winograd_rows.hpp): where vectors are wide
/// and so few channels, or 17 to 20 outputs of at most 32 inputs, would leave most lanes of one empty, but points of a
/// row do not. A function of types and of the machine compiled for: halos depend on it, so all ranks of a run are of
/// one build.
constexpr bool winograd_by_rows(int window, int inputs, int outputs) {
  return wide_vector_bytes > vector_bytes && window == 3 &&
         (inputs < 16 || outputs < 16 || (inputs <= 32 && outputs > 16 && outputs <= 20));
}

/// Whether such an input gradient sums the weights' gradient as well, in one pass over the output's gradient: where
/// the sums of all products stay in L2 beside the rest. Down the columns alone they are vectors.
constexpr bool winograd_sums_weights(int gradients, int channels) { return gradients * channels <= 1024; }
constexpr bool winograd_rows_sum_weights(int gradients, int channels) { return gradients * channels <= 300; }

}  // namespace halogen
