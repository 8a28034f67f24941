// Memory where launches and the transport meet.
#pragma once

#include "halogen/tensor/space.hpp"

namespace halogen {

/// What the transport reads and writes in place of an array of the launches: the array itself on the host, an image in
/// pinned host memory otherwise. Offsets and counts in values; put and get have copied when they return, and do nothing
/// where array and image are one.
template <class T>
class TransportImage {
 public:
  void reserve(const char* label, std::size_t count) {
    if constexpr (!runs_on_host)
      if (image_.size() < count) image_ = Kokkos::View<T*, transport_space>(label, count);
  }

  T* at(T* array, std::size_t offset) const { return (runs_on_host ? array : image_.data()) + offset; }

  /// Launches' values into the image.
  void put(const execution_space& space, const T* from, std::size_t offset, std::size_t count) const {
    if constexpr (!runs_on_host) copy<transport_space, memory_space>(space, image_.data() + offset, from, count);
  }
  /// And out of it.
  void get(const execution_space& space, T* to, std::size_t offset, std::size_t count) const {
    if constexpr (!runs_on_host) copy<memory_space, transport_space>(space, to, image_.data() + offset, count);
  }

 private:
  template <class To, class From>
  static void copy(const execution_space& space, T* to, const T* from, std::size_t count) {
    Kokkos::deep_copy(space, Kokkos::View<T*, To, Kokkos::MemoryUnmanaged>(to, count),
                      Kokkos::View<const T*, From, Kokkos::MemoryUnmanaged>(from, count));
    space.fence("halogen::transport_image");
  }

  Kokkos::View<T*, transport_space> image_;
};

}  // namespace halogen
