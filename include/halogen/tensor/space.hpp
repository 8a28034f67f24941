// Where fields live and kernels run, and where the transport can read.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "halogen/core/config.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace halogen {

using execution_space = Kokkos::DefaultExecutionSpace;
using memory_space = execution_space::memory_space;

inline constexpr bool runs_on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;

/// One launch of functor(i) for i in [0, count).
template <class Functor>
void launch_range(const execution_space& space, const char* label, index_t count, const Functor& functor) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, count),
                       functor);
}

/// Buffers given to the transport: plain host memory, or pinned host memory that device kernels write directly.
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
using transport_space = std::conditional_t<runs_on_host, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;
#else
using transport_space = Kokkos::HostSpace;
#endif

/// Asks for huge pages before memory is touched: first touch of 4 KiB pages costs more than a convolution on them.
/// Does nothing where the system has none, or the memory is a device's.
inline void advise_huge_pages([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 1 << 21;
  if (!runs_on_host || bytes < 2 * page) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace halogen
