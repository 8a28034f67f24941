// The tiles of Winograd's F(4 x 4, 3 x 3), F(4, 3) and F(2 x 2, 5 x 5).
#pragma once

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

}  // namespace halogen
