// On the host, memory that stands for a device's: what Kokkos allocates, but for what is called pinned. The library's
// NCCL transport then stages all other memory, and the stand-in refuses it and has a side stream that lags. Call after
// Kokkos has started.
#pragma once

#include <dlfcn.h>
#include <malloc.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <halogen/comm/stream.hpp>
#include <map>
#include <string_view>

namespace support {

inline std::map<const char*, std::uint64_t>& device_blocks() {
  static auto& blocks = *new std::map<const char*, std::uint64_t>;
  return blocks;
}

/// What NCCL's stand-in has given lies on a device as well.
inline bool (*allocated_by_nccl)(const void*) = [](const void*) { return false; };

inline bool lies_on_device(const void* data) {
  if (allocated_by_nccl(data)) return true;
  const auto* place = static_cast<const char*>(data);
  const auto block = device_blocks().upper_bound(place);
  return block != device_blocks().begin() && place < std::prev(block)->first + std::prev(block)->second;
}

inline void tell_device_memory_apart() {
#ifndef KOKKOS_ENABLE_CUDA
  halogen::detail::polls_of_a_mark = 2;  // and what the stream has passed is known late, as on a device
#endif
#if defined(HALOGEN_WITH_NCCL) && !defined(KOKKOS_ENABLE_CUDA)
  const char* path = std::getenv("HALOGEN_NCCL_LIBRARY");
  if (path == nullptr) return;  // not over the stand-in
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle, const char* label, const void* data, std::uint64_t bytes) {
        if (std::string_view(label) == "halogen::pinned") return;
        // Kokkos adds a header, but counts it itself where nothing else is there: what malloc gave bounds both.
        device_blocks()[static_cast<const char*>(data)] = std::min<std::uint64_t>(
            bytes + sizeof(Kokkos::Impl::SharedAllocationHeader), malloc_usable_size(const_cast<void*>(data)));
      });
  tools::set_deallocate_data_callback([](Kokkos_Profiling_SpaceHandle, const char*, const void* data, std::uint64_t) {
    device_blocks().erase(static_cast<const char*>(data));
  });
  halogen::detail::is_device_memory = lies_on_device;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  if (void* ask = dlsym(library, "nccl_standin_has_allocated"))
    allocated_by_nccl = reinterpret_cast<bool (*)(const void*)>(ask);
  if (void* queued = dlsym(library, "nccl_standin_queued"))
    halogen::detail::side_stream_queued = reinterpret_cast<std::uint64_t (*)()>(queued);
  if (void* done = dlsym(library, "nccl_standin_done"))
    halogen::detail::side_stream_done = reinterpret_cast<std::uint64_t (*)()>(done);
  if (void* check = dlsym(library, "nccl_standin_check_memory"))
    reinterpret_cast<void (*)(bool (*)(const void*))>(check)(lies_on_device);
#endif
}

}  // namespace support
