// One block of memory for everything that a plan stores. Every step uses it again.
#pragma once

#include <string>

#include "halogen/core/config.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// Memory that grows to the size of the largest plan that used it. Its values are lost when it grows. It has huge pages
/// where the system offers them, because the first touch of 4 KiB pages takes longer than many a launch on them. If the
/// memory is refused, reserve() throws an Error that names the bytes, and the arena is as large as before.
class Arena {
 public:
  /// `holds` says what the memory is for and `advice` what to do if it is too much. Both are words for that Error.
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
    if (before > 0) allocate(before);  // so that plans that fitted can run again
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
