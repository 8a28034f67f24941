// One allocation for everything that a plan stores; reused by every step.
#pragma once

#include <string>

#include "halogen/core/config.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// Memory that grows to the largest plan it has served. Values do not survive growth. Huge pages where the system
/// has them: first touch of 4 KiB pages costs more than many a launch on them. Throws Error, naming the bytes, where
/// the memory is refused, and is then as large as before.
class Arena {
 public:
  /// What it holds, and what helps where there is too much of it, are words for that Error.
  explicit Arena(const char* label = "halogen::arena", const char* holds = "activations",
                 const char* advice = "use more ranks or a smaller field")
      : label_(label), holds_(holds), advice_(advice) {}

  void reserve(std::size_t bytes);

  std::size_t bytes() const { return memory_.size(); }

  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

 private:
  void allocate(std::size_t bytes);

  std::string label_, holds_, advice_;
  detail::Lasting<Kokkos::View<std::byte*, memory_space>> memory_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE void Arena::reserve(std::size_t bytes) {
  if (bytes <= memory_.size()) return;
  const std::size_t before = memory_.size();
  memory_ = {};  // both at once might not fit
  try {
    allocate(bytes);
  } catch (const Error&) {
    if (before > 0) allocate(before);  // plans that fitted will run again
    throw;
  }
}

HALOGEN_INLINE void Arena::allocate(std::size_t bytes) {
  memory_ = allocated(bytes, holds_, advice_, [&] {
    return Kokkos::View<std::byte*, memory_space>(Kokkos::view_alloc(label_, Kokkos::WithoutInitializing), bytes);
  });
  advise_huge_pages(memory_.data(), bytes);
}
#endif

}  // namespace halogen
