// halo_exchange: fills a tensor's margins from its neighbours, one message per intersecting peer, reused every step.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "halogen/halo/pack.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Prepared once for a tensor's strips; start() packs and posts, finish() waits and unpacks. Buffers are the
/// caller's (`send`, `receive`: at least values() of T where the transport can read), so that exchanges that are
/// never under way together share them. Own periodic images are copied, not sent. A transport in the stream's order is
/// not waited for by the host.
template <class T, int Rank>
class HaloExchange {
 public:
  HaloExchange() = default;
  explicit HaloExchange(const HaloStrips<Rank>& strips)
      : receives_(strips.receives, true),
        sends_(strips.sends, false),
        receive_list_(list(strips.receives)),
        send_list_(list(strips.sends)) {}

  /// The same, but what `own`, this rank, sends itself passes through no buffer: copy_own() copies it.
  HaloExchange(const HaloStrips<Rank>& strips, int own);

  bool empty() const { return values() == 0 && own_from_.values() == 0; }
  index_t values() const { return std::max(receives_.values(), sends_.values()); }

  void connect(const Communicator& world, T* send, T* receive, std::string what);

  void start(const execution_space& space, const StridedView<T, Rank>& tensor);

  /// The same without waiting: messages that need the packing done are started by test(), send() or finish(). Between
  /// the same ranks nothing else may start meanwhile.
  void start_behind(const execution_space& space, const StridedView<T, Rank>& tensor);

  /// Waits for the packing and starts the messages, for which others may wait while this rank waits for nothing.
  void send();

  /// This rank's own part, from one tensor to another or to the margins of the same; between start and finish, while
  /// messages are under way.
  void copy_own(const execution_space& space, const StridedView<T, Rank>& from, const StridedView<T, Rank>& to) const;
  /// The same in two steps, where `from` may be written again before `to` is known. `kept`: own_values() of T.
  index_t own_values() const { return own_from_.values(); }
  void keep_own(const execution_space& space, const StridedView<T, Rank>& from, T* kept) const;
  void restore_own(const execution_space& space, const StridedView<T, Rank>& to, T* kept) const;

  /// Makes the transport move; true when all has arrived.
  bool test();

  /// Until all has arrived, which is left where it is.
  void wait() {
    detail::poll_until([this] { return exchange_.awaited(); }, [this] { return test(); });
  }

  void finish(const execution_space& space, const StridedView<T, Rank>& tensor);

 private:
  struct Part {
    int peer;
    index_t offset, values;
  };

  static HaloStrips<Rank> of_peers(const HaloStrips<Rank>& strips, int own, bool itself);

  /// Strips of one peer lie side by side: one message each. A strip to itself goes the transport's own copying way.
  static std::vector<Part> list(const std::vector<Strip<Rank>>& strips);

  static std::vector<Transfer> transfers(const std::vector<Part>& parts, T* buffer);

  StripTable<Rank> receives_, sends_, own_from_, own_to_;
  std::vector<Part> receive_list_, send_list_;
  Communicator world_ = Communicator::null();
  T* send_ = nullptr;
  T* receive_ = nullptr;
  Exchange exchange_;
  detail::StreamMark packed_;
  bool is_behind_ = false;
};

template <class T, int Rank>
HaloExchange<T, Rank>::HaloExchange(const HaloStrips<Rank>& strips, int own)
    : HaloExchange(of_peers(strips, own, false)) {
  const HaloStrips<Rank> mine = of_peers(strips, own, true);
  own_from_ = StripTable<Rank>(mine.sends, false);
  own_to_ = StripTable<Rank>(mine.receives, true);
}

template <class T, int Rank>
void HaloExchange<T, Rank>::connect(const Communicator& world, T* send, T* receive, std::string what) {
  world_ = world;
  send_ = send;
  receive_ = receive;
  exchange_ = world.prepare(transfers(receive_list_, receive), transfers(send_list_, send), std::move(what));
}

template <class T, int Rank>
void HaloExchange<T, Rank>::start(const execution_space& space, const StridedView<T, Rank>& tensor) {
  if (sends_.values() > 0) sends_.template copy<true>(space, tensor, send_);
  if (values() > 0) settle(space, world_, "halogen::pack");  // the last unpacking may still read what comes anew
  exchange_.start();
}

template <class T, int Rank>
void HaloExchange<T, Rank>::start_behind(const execution_space& space, const StridedView<T, Rank>& tensor) {
  if (sends_.values() > 0) sends_.template copy<true>(space, tensor, send_);
  packed_.record();
  is_behind_ = !world_.stream_ordered();
  if (is_behind_)
    test();  // on the host it is packed
  else
    exchange_.start();
}

template <class T, int Rank>
void HaloExchange<T, Rank>::send() {
  if (is_behind_) detail::poll_until([this] { return exchange_.awaited(); }, [this] { return test() || !is_behind_; });
}

template <class T, int Rank>
void HaloExchange<T, Rank>::copy_own(const execution_space& space, const StridedView<T, Rank>& from,
                                     const StridedView<T, Rank>& to) const {
  if (own_from_.values() == 0) return;
  own_from_.copy_across(space, from, own_to_, to);
  comm_stats().local_copies.add(static_cast<std::size_t>(own_from_.values()) * sizeof(T));
}

template <class T, int Rank>
void HaloExchange<T, Rank>::keep_own(const execution_space& space, const StridedView<T, Rank>& from, T* kept) const {
  own_from_.template copy<true>(space, from, kept);
  comm_stats().local_copies.add(static_cast<std::size_t>(own_from_.values()) * sizeof(T));
}

template <class T, int Rank>
void HaloExchange<T, Rank>::restore_own(const execution_space& space, const StridedView<T, Rank>& to, T* kept) const {
  own_to_.template copy<false>(space, to, kept);
}

template <class T, int Rank>
bool HaloExchange<T, Rank>::test() {
  if (is_behind_) {
    if (!packed_.passed()) return false;
    is_behind_ = false;
    exchange_.start();
  }
  return exchange_.test();
}

template <class T, int Rank>
void HaloExchange<T, Rank>::finish(const execution_space& space, const StridedView<T, Rank>& tensor) {
  wait();
  receives_.template copy<false>(space, tensor, receive_);
}

template <class T, int Rank>
HaloStrips<Rank> HaloExchange<T, Rank>::of_peers(const HaloStrips<Rank>& strips, int own, bool itself) {
  HaloStrips<Rank> chosen;
  for (const Strip<Rank>& strip : strips.receives)
    if ((strip.peer == own) == itself) chosen.receives.push_back(strip);
  for (const Strip<Rank>& strip : strips.sends)
    if ((strip.peer == own) == itself) chosen.sends.push_back(strip);
  return chosen;
}

template <class T, int Rank>
auto HaloExchange<T, Rank>::list(const std::vector<Strip<Rank>>& strips) -> std::vector<Part> {
  std::vector<Part> parts;
  index_t offset = 0;
  for (const Strip<Rank>& strip : strips) {
    const index_t values = strip.to.points();
    if (parts.empty() || parts.back().peer != strip.peer) parts.push_back({strip.peer, offset, 0});
    parts.back().values += values;
    offset += values;
  }
  return parts;
}

template <class T, int Rank>
std::vector<Transfer> HaloExchange<T, Rank>::transfers(const std::vector<Part>& parts, T* buffer) {
  std::vector<Transfer> transfers;
  for (const Part& part : parts)
    transfers.push_back({part.peer, buffer + part.offset, static_cast<std::size_t>(part.values) * sizeof(T), 0});
  return transfers;
}

}  // namespace halogen
