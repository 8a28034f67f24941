// Strips of one field into as many of another, prepared: what copy_block and rearrange do once they know the strips.
#pragma once

#include <string>
#include <utility>

#include "halogen/halo/halo_exchange.hpp"

namespace halogen::detail {

/// Moves between any two fields whose pieces the strips were found for. Buffers are its own.
template <class T, int Rank>
class StripMove {
 public:
  StripMove(const Communicator& world, const HaloStrips<Rank>& strips, std::string what)
      : world_(world), exchange_(strips, world.rank()) {
    send_ = TransportBuffer<T>("halogen::send", exchange_.values(), Travels::in_messages, world);
    receive_ = TransportBuffer<T>("halogen::receive", exchange_.values(), Travels::in_messages, world);
    exchange_.connect(world, send_.data(), receive_.data(), std::move(what));
  }

  /// Is over for the host where the transport is not in the stream's order.
  void run(const StridedView<T, Rank>& from, const StridedView<T, Rank>& to, const char* fence) {
    exchange_.start(space_, from);
    exchange_.copy_own(space_, from, to);
    exchange_.finish(space_, to);
    settle(space_, world_, fence);
  }

 private:
  Communicator world_;
  execution_space space_;
  TransportBuffer<T> send_, receive_;
  HaloExchange<T, Rank> exchange_;  // ends before its buffers do
};

}  // namespace halogen::detail
