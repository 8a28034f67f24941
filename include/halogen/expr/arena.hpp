// One allocation for everything that a plan stores; reused by every step.
#pragma once

#include <cstdint>
#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/tensor/space.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace halogen {

/// Memory that grows to the largest plan it has served. Values do not survive growth. Huge pages where the system
/// has them: first touch of 4 KiB pages costs more than a convolution on them. Throws Error, naming the bytes, where
/// the memory is refused.
class Arena {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= memory_.size()) return;
    memory_ = {};
    try {
      memory_ = Kokkos::View<std::byte*, memory_space>(
          Kokkos::view_alloc("halogen::arena", Kokkos::WithoutInitializing), bytes);
    } catch (const std::exception&) {
      throw Error("this rank's activations need " + std::to_string(bytes >> 20) +
                  " MiB, which the system refuses: use more ranks or a smaller field");
    }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if constexpr (runs_on_host) {
      constexpr std::uintptr_t page = 1 << 21;
      const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + page - 1) / page * page;
      const auto end = reinterpret_cast<std::uintptr_t>(memory_.data() + bytes) / page * page;
      if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    }
#endif
  }

  std::size_t bytes() const { return memory_.size(); }

  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

 private:
  Kokkos::View<std::byte*, memory_space> memory_;
};

}  // namespace halogen
