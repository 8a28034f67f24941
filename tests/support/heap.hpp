// Counts what a test's process takes from the heap. Replaces operator new, so the one source of a test includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace support {

struct Heap {
  long calls = 0;
  long of_data = 0;  ///< more than 32 bytes: not the labels of kernels, which are strings
  std::size_t largest = 0;

  void* take(std::size_t bytes) {
    ++calls;
    of_data += bytes > 32;
    largest = std::max(largest, bytes);
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
  }
};
inline Heap heap;

/// A host's function: nvcc compiles operator new for devices too, where there is no heap and nothing throws.
inline void* take_from_heap(std::size_t bytes) { return heap.take(bytes); }

/// Whether a tool (the access guard, say) makes Kokkos take labels from the heap for it.
inline bool heap_serves_a_tool() { return std::getenv("KOKKOS_TOOLS_LIBS") != nullptr; }

}  // namespace support

[[gnu::noinline]] void* operator new(std::size_t bytes) { return support::take_from_heap(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
