// Where fields live and kernels run, and where the transport can read.
#pragma once

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace halogen {

using execution_space = Kokkos::DefaultExecutionSpace;
using memory_space = execution_space::memory_space;

inline constexpr bool runs_on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;

/// Buffers given to the transport: plain host memory, or pinned host memory that device kernels write directly.
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
using transport_space = std::conditional_t<runs_on_host, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;
#else
using transport_space = Kokkos::HostSpace;
#endif

}  // namespace halogen
