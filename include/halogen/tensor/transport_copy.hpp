// Memory where launches and the transport meet.
#pragma once

#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// What collectives read and write in place of an array of the launches: the array itself on the host and where the
/// transport takes device memory, a copy in pinned host memory otherwise. Offsets and counts in values; put and get
/// have copied when they return, and do nothing if the array itself is used.
template <class T>
class TransportCopy {
 public:
  /// All of `ranks` take device memory, or none.
  template <class... Ranks>
  void reserve(const char* label, std::size_t count, const Ranks&... ranks) {
    needed_ = !runs_on_host && !(ranks.collectives_take_device_memory() && ...);
    if (needed_ && copy_.size() < count) copy_ = Kokkos::View<T*, transport_space>(label, count);
  }

  /// Whether there is a copy beside the array.
  bool needed() const { return needed_; }

  T* at(T* array, std::size_t offset) const { return (needed_ ? copy_.data() : array) + offset; }

  /// Launches' values into the copy.
  void put(const execution_space& space, const T* from, std::size_t offset, std::size_t count) const {
    if (needed_) copy<transport_space, memory_space>(space, copy_.data() + offset, from, count);
  }
  /// And out of it.
  void get(const execution_space& space, T* to, std::size_t offset, std::size_t count) const {
    if (needed_) copy<memory_space, transport_space>(space, to, copy_.data() + offset, count);
  }

 private:
  template <class To, class From>
  static void copy(const execution_space& space, T* to, const T* from, std::size_t count) {
    detail::copy_values<To, From>(space, to, from, count);
    space.fence("halogen::transport_copy");
  }

  bool needed_ = false;
  detail::Lasting<Kokkos::View<T*, transport_space>> copy_;
};
template <class T>
using TransportImage [[deprecated("it is called TransportCopy")]] = TransportCopy<T>;

}  // namespace halogen
