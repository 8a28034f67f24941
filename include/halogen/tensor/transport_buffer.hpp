// Memory that launches and a transport share.
#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "halogen/comm/communicator.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// What a buffer travels in.
enum class Travels { in_messages, in_collectives };

inline bool takes_device_memory(const Communicator& ranks, Travels how) {
  return how == Travels::in_messages ? ranks.messages_take_device_memory() : ranks.collectives_take_device_memory();
}

/// Before a transport reads, or receives into, what launches write or read: waits for them, unless the transport takes
/// its place behind them in the stream.
inline void settle(const execution_space& space, const Communicator& ranks, const char* label) {
  if (!ranks.stream_ordered()) space.fence(label);
}

namespace detail {

template <class To, class From, class T>
void copy_values(const execution_space& space, T* to, const T* from, std::size_t count) {
  Kokkos::deep_copy(space, Kokkos::View<T*, To, Kokkos::MemoryUnmanaged>(to, count),
                    Kokkos::View<const T*, From, Kokkos::MemoryUnmanaged>(from, count));
}

}  // namespace detail

/// Values without initial ones: in the transport's own memory for messages where it has some, in device memory where it
/// takes that, else in transport_space, which kernels write directly. Of the host there is only one kind. Copies are
/// shallow.
template <class T>
class TransportBuffer {
 public:
  TransportBuffer() = default;
  template <class... More>
  TransportBuffer(const std::string& label, index_t values, Travels how, const Communicator& ranks,
                  const More&... more);

  T* data() const { return device_.data() != nullptr ? device_.data() : shared_.data(); }
  std::size_t size() const { return device_.size() + shared_.size(); }

  /// Copies in the order of the launches: from their memory into the first `count` values, and back.
  void put(const execution_space& space, const T* from, std::size_t count) const;
  void get(const execution_space& space, T* to, std::size_t count) const;

  /// The first Count values; waits for the launches that write them.
  template <std::size_t Count>
  std::array<T, Count> to_host(const execution_space& space, const char* label) const;

 private:
  std::shared_ptr<void> owned_by_transport_;
  detail::Lasting<Kokkos::View<T*, memory_space>> device_;
  detail::Lasting<Kokkos::View<T*, transport_space>> shared_;
};

template <class T>
template <class... More>
TransportBuffer<T>::TransportBuffer(const std::string& label, index_t values, Travels how, const Communicator& ranks,
                                    const More&... more) {
  if (how == Travels::in_messages)
    owned_by_transport_ = ranks.message_memory(static_cast<std::size_t>(values) * sizeof(T));
  if (owned_by_transport_)
    device_ = decltype(device_)(static_cast<T*>(owned_by_transport_.get()), values);
  else if (!runs_on_host && (takes_device_memory(ranks, how) && ... && takes_device_memory(more, how)))
    device_ = decltype(device_)(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), values);
  else
    shared_ = decltype(shared_)(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), values);
  advise_huge_pages(data(), static_cast<std::size_t>(values) * sizeof(T));
}

template <class T>
void TransportBuffer<T>::put(const execution_space& space, const T* from, std::size_t count) const {
  if (device_.data() != nullptr)
    detail::copy_values<memory_space, memory_space>(space, device_.data(), from, count);
  else
    detail::copy_values<transport_space, memory_space>(space, shared_.data(), from, count);
}

template <class T>
void TransportBuffer<T>::get(const execution_space& space, T* to, std::size_t count) const {
  if (device_.data() != nullptr)
    detail::copy_values<memory_space, memory_space>(space, to, device_.data(), count);
  else
    detail::copy_values<memory_space, transport_space>(space, to, shared_.data(), count);
}

template <class T>
template <std::size_t Count>
std::array<T, Count> TransportBuffer<T>::to_host(const execution_space& space, const char* label) const {
  std::array<T, Count> values;
  if (device_.data() != nullptr)
    detail::copy_values<Kokkos::HostSpace, memory_space>(space, values.data(), device_.data(), Count);
  space.fence(label);
  if (device_.data() == nullptr) std::copy_n(shared_.data(), Count, values.data());
  return values;
}

}  // namespace halogen
