// Whether this MPI reads and writes device memory.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <string>

#include "halogen/comm/mpi/handle.hpp"
#include "halogen/comm/start.hpp"
#include "halogen/comm/stream.hpp"
#include "halogen/core/config.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace halogen::detail {

/// What Open MPI or MPICH says of itself, unless HALOGEN_MPI_GPU_AWARE is 0 or 1. Holds for messages: Open MPI's
/// non-blocking reductions take host memory only, whatever it says.
bool mpi_takes_device_memory();
#if HALOGEN_BODIES
HALOGEN_INLINE bool mpi_takes_device_memory() {
  if (!has_stream) return false;
  if (const std::string text = text_of(settings::mpi_gpu_aware); !text.empty()) return text == "1";
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int is_supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported) == MPI_SUCCESS && is_supported != 0;
#else
  return false;
#endif
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
