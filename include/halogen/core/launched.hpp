// Whether a device took a launch. Kokkos does not ask, and a refused launch does not write its output.
#pragma once

#if defined(__CUDACC__)
#include <stdexcept>
#include <string>
#endif

namespace halogen::detail {

/// Call this right after a launch. It does not wait. It throws std::runtime_error if CUDA has refused the launch.
inline void check_launched([[maybe_unused]] const char* label) {
#if defined(__CUDACC__)
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw std::runtime_error(std::string("the GPU refuses the launch ") + label + ": '" + cudaGetErrorString(status) +
                             "': build for its architecture, or see docs/gpu.md");
#endif
}

}  // namespace halogen::detail
