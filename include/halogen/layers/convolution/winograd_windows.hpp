// Which convolutions run by Winograd's algorithm (stencil/winograd_tile.hpp has its tiles).
#pragma once

#include "halogen/core/vector_bytes.hpp"
#include "halogen/stencil/window.hpp"
#include "halogen/stencil/winograd_tile.hpp"

namespace halogen {

/// Returns 3 or 5 if the convolution uses Winograd's algorithm, else 0. It does for square windows of stride 1 on the
/// host, between at least eight channels on each side, sixteen for 5 x 5. With fewer, transforms cost more than the
/// products that they save. This is a function of types alone, so that every rank and mesh computes alike.
constexpr int winograd_window(const Window& height, const Window& width, int inputs, int outputs) {
  const int window = height.kernel, channels = window == 3 ? 8 : 16;
  const auto fits = [&](const Window& w) { return w.kernel == window && w.stride == 1 && w.dilation == 1; };
  const bool has_tile = window == 3 || window == 5;
  return has_winograd && has_tile && fits(height) && fits(width) && inputs >= channels && outputs >= channels ? window
                                                                                                              : 0;
}

/// Whether such a convolution transforms down the columns alone (kernels/winograd/winograd_rows.hpp). It does where
/// vectors are wide, and so few channels, or 17 to 20 outputs of at most 32 inputs, would leave most lanes empty, but
/// points of a row do not. This is a function of types and of the machine compiled for. Halos depend on it, so all
/// ranks of a run are of one build.
constexpr bool winograd_by_rows(int window, int inputs, int outputs) {
  return wide_vector_bytes > vector_bytes && window == 3 &&
         (inputs < 16 || outputs < 16 || (inputs <= 32 && outputs > 16 && outputs <= 20));
}

/// Whether such an input gradient sums the weights' gradient as well, in one pass over the output's gradient. It does
/// where the sums of all products stay in L2 beside the rest. Down the columns alone they are vectors.
constexpr bool winograd_sums_weights(int gradients, int channels) { return gradients * channels <= 1024; }
constexpr bool winograd_rows_sum_weights(int gradients, int channels) { return gradients * channels <= 300; }

}  // namespace halogen
