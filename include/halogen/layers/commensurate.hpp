// Periodic windows whose gradient can be gathered.
#pragma once

#include <string>

#include "halogen/core/config.hpp"
#include "halogen/run/at.hpp"

namespace halogen::detail {

/// Gathering a gradient through a periodic window shifts outputs by whole fields; that needs extent = stride * outputs.
void check_commensurate(const Node& node, const Window& window, index_t input, index_t output);

#if HALOGEN_BODIES
HALOGEN_INLINE void check_commensurate(const Node& node, const Window& window, index_t input, index_t output) {
  if (!window.periodic || window.commensurate(input, output)) return;
  if (window.padding == 0 && window.more_padding <= 0 && !window.transposed)
    return;  // no window crosses the end: nothing is periodic about it
  throw CollectiveError(
      "layer " + std::to_string(node.layer) + " (" + node.operation->name + ") has a periodic window of stride " +
      std::to_string(window.stride) + " over " + std::to_string(input) + " points with " + std::to_string(output) +
      " outputs; " +
      (window.transposed ? "it needs outputs = stride * extent" : "its gradient needs extent = stride * outputs") +
      ": pad to keep the extent, or use Zero");
}
#endif

}  // namespace halogen::detail
