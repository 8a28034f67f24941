// halo_exchange: fills a tensor's margins from its neighbours, one message per intersecting peer, reused every step.
#pragma once

#include <span>
#include <string>

#include "halogen/comm/communicator.hpp"
#include "halogen/halo/pack.hpp"

namespace halogen {

/// Prepared once for a tensor's strips; start() packs and posts, finish() waits and unpacks. Buffers are the
/// caller's (`send`, `receive`: at least send_values(), receive_values() of T where the transport can read), so that
/// exchanges that are never under way together share them. Own periodic images are copied, not sent.
template <class T>
class HaloExchange {
 public:
  HaloExchange() = default;
  HaloExchange(const HaloStrips& strips, int rank, int samples, int channels)
      : receives_(strips.receives, true, samples, channels),
        sends_(strips.sends, false, samples, channels),
        rank_(rank),
        channels_(channels) {
    const index_t planes = index_t{samples} * channels;
    list(strips.receives, true, planes, receive_list_);
    list(strips.sends, false, planes, send_list_);
  }

  bool empty() const { return receives_.values() == 0 && sends_.values() == 0; }
  index_t send_values() const { return sends_.values(); }
  index_t receive_values() const { return receives_.values(); }

  void connect(const Communicator& world, T* send, T* receive, std::string what) {
    send_ = send;
    receive_ = receive;
    exchange_ = world.prepare(transfers(receive_list_, receive), transfers(send_list_, send), std::move(what));
  }

  void start(const execution_space& space, const TensorView<T>& tensor) {
    sends_.template copy<true>(space, tensor, channels_, send_);
    space.fence("halogen::pack");
    exchange_.start();
  }

  /// Makes the transport move; true when all has arrived.
  bool test() { return exchange_.test(); }

  void finish(const execution_space& space, const TensorView<T>& tensor) {
    exchange_.wait();
    receives_.template copy<false>(space, tensor, channels_, receive_);
  }

 private:
  struct Part {
    int peer;
    index_t offset, values;
  };

  /// Strips of one peer lie side by side: one message each. A strip to itself goes the transport's own copying way.
  static void list(const std::vector<Strip>& strips, bool receiving, index_t planes, std::vector<Part>& parts) {
    index_t offset = 0;
    for (const Strip& strip : strips) {
      const index_t values = planes * (receiving ? strip.to : strip.from).points();
      if (parts.empty() || parts.back().peer != strip.peer) parts.push_back({strip.peer, offset, 0});
      parts.back().values += values;
      offset += values;
    }
  }

  static std::vector<Transfer> transfers(const std::vector<Part>& parts, T* buffer) {
    std::vector<Transfer> transfers;
    for (const Part& part : parts)
      transfers.push_back({part.peer, buffer + part.offset, static_cast<std::size_t>(part.values) * sizeof(T), 0});
    return transfers;
  }

  StripTable receives_, sends_;
  std::vector<Part> receive_list_, send_list_;
  int rank_ = 0, channels_ = 0;
  T* send_ = nullptr;
  T* receive_ = nullptr;
  Exchange exchange_;
};

}  // namespace halogen
