// Whether a device took a launch. Kokkos does not ask, and what was refused would leave its output as it was.
#pragma once

#if defined(__CUDACC__)
#include <stdexcept>
#include <string>
#endif

namespace halogen::detail {

/// Right behind a launch; waits for nothing. Throws std::runtime_error where CUDA has refused it.
inline void check_launched([[maybe_unused]] const char* label) {
#if defined(__CUDACC__)
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw std::runtime_error(std::string("the GPU refuses the launch ") + label + ": '" + cudaGetErrorString(status) +
                             "': build for its architecture, or see docs/gpu.md");
#endif
}

}  // namespace halogen::detail
