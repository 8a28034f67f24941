// The devices that a program was compiled for: asked for before Kokkos does, which would abort.
#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <span>
#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Throws Error where code compiled for these compute capabilities (900 is 9.0) does not run on a device of `found`.
void check_architecture(std::span<const int> compiled, int found, const std::string& device);
#if HALOGEN_BODIES
HALOGEN_INLINE void check_architecture(std::span<const int> compiled, int found, const std::string& device) {
  const auto runs = [found](int one) { return one / 100 == found / 100 && one <= found; };
  if (std::ranges::any_of(compiled, runs)) return;
  const auto text = [](int number) { return std::to_string(number / 100) + "." + std::to_string(number / 10 % 10); };
  std::string all;
  for (const int one : compiled) all += (all.empty() ? "" : ", ") + text(one);
  throw Error("this program was compiled for GPUs of compute capability " + all + ", but " + device + " has " +
              text(found) + ": build it and Kokkos with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(found / 10) +
              ", or hide that device with CUDA_VISIBLE_DEVICES");
}
#endif

/// Throws Error where this build needs a device and there is none that it runs on.
void check_devices();
#if HALOGEN_BODIES
HALOGEN_INLINE void check_devices() {
#ifdef KOKKOS_ENABLE_CUDA
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count == 0) status = cudaErrorNoDevice;
  if (status != cudaSuccess)
    throw Error(std::string("this program runs on NVIDIA GPUs, but the CUDA runtime finds none (") +
                cudaGetErrorString(status) +
                "): start it where a GPU and its driver are, or build the preset host for the CPU");
#ifdef __CUDA_ARCH_LIST__
  constexpr int compiled[] = {__CUDA_ARCH_LIST__};
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp found;
    if (cudaGetDeviceProperties(&found, device) == cudaSuccess)
      check_architecture(compiled, 100 * found.major + 10 * found.minor,
                         "device " + std::to_string(device) + " (" + found.name + ")");
  }
#endif
#endif
}
#endif

}  // namespace halogen::detail
