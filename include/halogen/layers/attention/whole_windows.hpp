// A field with zeros after its last points, so that windows divide it, and the way back: WindowAttention's
// PadToWindows. A rank's piece then begins and ends where windows do; the points in between come from the ranks beside
// it, at most kernel - 1 rows or columns.
#pragma once

#include "halogen/layers/crop.hpp"

namespace halogen::detail {

inline constexpr OffsetConstants in_place{};
inline constexpr Operation pad_to_windows_operation{"pad_to_windows", offset_forward, offset_vjp};
inline constexpr Operation crop_to_field_operation{"crop_to_field", offset_forward, offset_vjp};

/// The points of x on another level, each at its own place. Points that x does not have are 0.
constexpr Traced placed_on(Traced x, int level, const Operation& operation) {
  const Traced y = add_layer(x, operation, &in_place);
  y.graph->nodes[y.node].level = level;
  return y;
}

/// x with zeros after its last points, up to a whole number of windows in each dimension that is not periodic.
constexpr Traced padded_to_windows(Traced x, const Window (&windows)[spatial_dimensions]) {
  GraphDraft& graph = *x.graph;
  Window down[spatial_dimensions], up[spatial_dimensions];
  for (int d = 0; d < spatial_dimensions; ++d) {
    const int kernel = windows[d].kernel;
    if (windows[d].periodic || kernel == 1) continue;
    down[d] = {.stride = kernel};  // one point for each window
    up[d] = {.kernel = kernel, .stride = kernel, .transposed = true};
  }
  return placed_on(x, graph.level_through(graph.level_through((*x).level, down), up), pad_to_windows_operation);
}

}  // namespace halogen::detail
