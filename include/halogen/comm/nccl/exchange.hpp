// A prepared exchange over NCCL: what lies in windows is put there, all else goes as one group of sends and receives.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/nccl/handle.hpp"
#include "halogen/comm/nccl/staging.hpp"
#include "halogen/comm/nccl/window_messages.hpp"
#include "halogen/comm/self_copy.hpp"
#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Host memory goes through NCCL in rounds of about so many bytes, a 16th a message. A variable, so that a test can
/// make all data long.
inline std::size_t nccl_round_bytes = std::size_t{64} << 20;

/// NCCL knows no tags and pairs the messages of two ranks in the order in which both post them, so they are posted in
/// the order of tags, and under one tag in that given. What a rank sends itself is a copy on the stream. The first
/// start compares lengths with the peers, since NCCL would hang or fill half a halo, and waits for that. There both
/// ends also find out whether all messages from one to the other lie in windows: these are then put, but while a graph
/// is recorded, since NCCL before 2.30 cannot record that.
class NcclExchange final : public PreparedExchange {
 public:
  NcclExchange(std::shared_ptr<NcclHandle> handle, std::span<const Transfer> receives, std::span<const Transfer> sends,
               std::string what);

  const std::string& what() const override { return what_; }

  void start() override;

  bool test() override;

 private:
  std::vector<Transfer> in_order_of_tags(std::span<const Transfer> transfers) const;

  void post(const std::vector<Transfer>& receives, const std::vector<Transfer>& sends);

  /// Sources and targets of `staging_` are set; the transfers' memory is replaced by their places in it.
  void post_staged(std::vector<Transfer>& receives, std::vector<Transfer>& sends);

  void wait() {
    poll_until([this] { return awaited(); }, [this] { return test(); });
  }

  /// A message is as many rounds long for its sender as for its receiver, whatever else either has to say; the last
  /// round is left under way.
  void start_staged();

  /// Puts begin when the kernels before them have ended and run beside those behind, up to join().
  void start_with_puts();
  void join();

  /// What is said of the messages from one rank to another.
  struct Traffic {
    std::int64_t bytes = 0, messages = 0, in_windows = 0;
    bool goes_by_puts(const Traffic& at_the_other_end) const {
      return in_windows > 0 && in_windows == messages && at_the_other_end.in_windows == messages &&
             at_the_other_end.messages == messages;
    }
  };
  struct Traffics {
    Traffic sent, received;
  };

  /// Each rank tells its peers what it sends them and what it receives.
  void compare();

  /// Where a message is put, and how much fits there.
  struct Place {
    std::int64_t offset, bytes;
  };

  /// Receivers tell the places of all messages of those peers that put theirs.
  void choose_puts(const std::map<int, Traffics>& own, const std::map<int, Traffics>& peers);

  /// Words in host memory for a peer, or of one.
  struct Words {
    int peer;
    HostSegment data;
  };
  template <class Word>
  static Words words(int peer, Word* data, std::size_t count) {
    return {peer, {reinterpret_cast<std::byte*>(data), count * sizeof(Word)}};
  }
  void swap_words(const std::vector<Words>& tell, const std::vector<Words>& hear);

  std::string sentence(int peer) const {
    return what_ + " on \"" + handle_->label() + "\", peer " + std::to_string(peer);
  }

  std::shared_ptr<NcclHandle> handle_;
  std::string what_;
  SelfCopies copies_;
  std::vector<Transfer> receives_, sends_;  // to and from others
  NcclWindowMessages puts_;
  std::vector<Transfer> other_receives_, other_sends_;  // and what is not put
  std::vector<Transfer> round_receives_, round_sends_;  // kept for their memory
  std::shared_ptr<const NcclOperation> operation_;
  bool on_device_ = true;
  bool lengths_agree_ = false;
  bool under_way_ = false;
  bool is_beside_ = false;
  StreamMark begin_, end_;  // of what is put
  NcclStaging staging_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE NcclExchange::NcclExchange(std::shared_ptr<NcclHandle> handle, std::span<const Transfer> receives,
                                          std::span<const Transfer> sends, std::string what)
    : handle_(std::move(handle)),
      what_(std::move(what)),
      copies_(handle_->rank(), receives, sends, what_),
      receives_(in_order_of_tags(receives)),
      sends_(in_order_of_tags(sends)) {
  NcclOperation operation{what_, {}};
  std::size_t on_device = 0;
  for (const std::vector<Transfer>* list : {&receives_, &sends_})
    for (const Transfer& transfer : *list) {
      operation.peers.push_back(transfer.peer);
      on_device += is_device_memory(transfer.data) ? 1 : 0;
    }
  std::ranges::sort(operation.peers);
  operation.peers.erase(std::unique(operation.peers.begin(), operation.peers.end()), operation.peers.end());
  on_device_ = on_device == receives_.size() + sends_.size();
  if (!on_device_ && on_device > 0)
    throw Error(what_ + ": some buffers lie in device memory, others in host memory: give one kind");
  operation_ = std::make_shared<const NcclOperation>(std::move(operation));
}

HALOGEN_INLINE void NcclExchange::start() {
  if (under_way_) throw Error(what_ + " on \"" + handle_->label() + "\" was started while still under way");
  handle_->check_health();
  join();
  if (!receives_.empty() || !sends_.empty()) {
    if (!std::exchange(lengths_agree_, true)) compare();
    for (const Transfer& send : sends_) comm_stats().messages.add(send.bytes);
    if (!on_device_)
      start_staged();
    else if (puts_.empty() || is_capturing())
      post(receives_, sends_);
    else
      start_with_puts();
  }
  copies_.copy();
}

HALOGEN_INLINE bool NcclExchange::test() {
  join();
  if (!under_way_) return true;
  handle_->check_health();
  if (!staging_.passed()) return false;
  under_way_ = false;
  handle_->check_health();  // an abort lets the mark pass as well
  staging_.finish();
  return true;
}

HALOGEN_INLINE std::vector<Transfer> NcclExchange::in_order_of_tags(std::span<const Transfer> transfers) const {
  std::vector<Transfer> list;
  for (const Transfer& transfer : transfers)
    if (transfer.bytes > 0 && transfer.peer != handle_->rank()) list.push_back(transfer);
  std::ranges::stable_sort(list, {}, &Transfer::tag);
  return list;
}

HALOGEN_INLINE void NcclExchange::post(const std::vector<Transfer>& receives, const std::vector<Transfer>& sends) {
  handle_->issue(operation_, [&](const NcclLibrary& nccl) {
    ncclResult_t code = ncclSuccess;
    const auto keep_first = [&code](ncclResult_t now) { code = code == ncclSuccess ? now : code; };
    for (const Transfer& receive : receives)
      keep_first(nccl.recv(receive.data, receive.bytes, ncclUint8, receive.peer, handle_->comm(), stream()));
    for (const Transfer& send : sends)
      keep_first(nccl.send(send.data, send.bytes, ncclUint8, send.peer, handle_->comm(), stream()));
    return code;
  });
}

HALOGEN_INLINE void NcclExchange::post_staged(std::vector<Transfer>& receives, std::vector<Transfer>& sends) {
  staging_.begin();
  std::byte* in = staging_.in();
  for (Transfer& send : sends) send.data = std::exchange(in, in + send.bytes);
  std::byte* out = staging_.out();
  for (Transfer& receive : receives) receive.data = std::exchange(out, out + receive.bytes);
  post(receives, sends);
  staging_.end();
  under_way_ = true;
}

HALOGEN_INLINE void NcclExchange::start_staged() {
  const std::size_t most = std::max<std::size_t>(1, nccl_round_bytes / 16);
  std::size_t longest = 0;
  for (const std::vector<Transfer>* list : {&receives_, &sends_})
    for (const Transfer& transfer : *list) longest = std::max(longest, transfer.bytes);
  std::vector<Transfer>&receives = round_receives_, &sends = round_sends_;
  for (std::size_t begin = 0; begin < longest; begin += most) {
    const auto pieces = [&](const std::vector<Transfer>& all, std::vector<Transfer>& some,
                            std::vector<HostSegment>& segments) {
      some.clear();
      for (Transfer transfer : all) {
        if (transfer.bytes <= begin) continue;
        transfer.data = static_cast<std::byte*>(transfer.data) + begin;
        transfer.bytes = std::min(transfer.bytes - begin, most);
        segments.push_back({static_cast<std::byte*>(transfer.data), transfer.bytes});
        some.push_back(transfer);
      }
    };
    if (begin > 0) wait();
    pieces(receives_, receives, staging_.targets);
    pieces(sends_, sends, staging_.sources);
    post_staged(receives, sends);
  }
}

HALOGEN_INLINE void NcclExchange::start_with_puts() {
  if (!other_receives_.empty() || !other_sends_.empty()) post(other_receives_, other_sends_);
  begin_.record(stream());
  begin_.hold(side_stream());
  handle_->call(
      operation_, [&](const NcclLibrary& nccl) { return puts_.issue(nccl, *handle_, side_stream()); }, side_stream());
  end_.record(side_stream());
  is_beside_ = true;
}

HALOGEN_INLINE void NcclExchange::join() {
  if (!std::exchange(is_beside_, false)) return;
  end_.hold(stream());
  handle_->check_health();
}

HALOGEN_INLINE void NcclExchange::compare() {
  std::map<int, Traffics> own, peers;
  const auto add = [&](const Transfer& one, Traffic Traffics::*direction) {
    Traffic& traffic = own[one.peer].*direction;
    traffic.bytes += static_cast<std::int64_t>(one.bytes);
    ++traffic.messages;
    if (handle_->window() != nullptr && handle_->message_memory()->holds(one.data, one.bytes)) ++traffic.in_windows;
  };
  for (const Transfer& receive : receives_) add(receive, &Traffics::received);
  for (const Transfer& send : sends_) add(send, &Traffics::sent);
  std::vector<Words> tell, hear;
  for (auto& [peer, traffics] : own) {
    tell.push_back(words(peer, &traffics, 1));
    hear.push_back(words(peer, &peers[peer], 1));
  }
  swap_words(tell, hear);
  for (const auto& [peer, traffics] : own)
    if (traffics.received.bytes != peers[peer].sent.bytes)
      throw Error(sentence(peer) + ": sent " + std::to_string(peers[peer].sent.bytes) + " bytes where " +
                  std::to_string(traffics.received.bytes) + " were expected");
  choose_puts(own, peers);
}

HALOGEN_INLINE void NcclExchange::choose_puts(const std::map<int, Traffics>& own,
                                              const std::map<int, Traffics>& peers) {
  std::map<int, std::vector<Place>> here, there;
  for (const Transfer& receive : receives_)
    if (own.at(receive.peer).received.goes_by_puts(peers.at(receive.peer).sent))
      here[receive.peer].push_back({static_cast<std::int64_t>(handle_->message_memory()->offset_of(receive.data)),
                                    static_cast<std::int64_t>(receive.bytes)});
    else
      other_receives_.push_back(receive);
  for (const auto& [peer, traffics] : own)
    if (traffics.sent.goes_by_puts(peers.at(peer).received))
      there[peer].resize(static_cast<std::size_t>(traffics.sent.messages));
  std::vector<Words> tell, hear;
  for (auto& [peer, places] : here) tell.push_back(words(peer, places.data(), places.size()));
  for (auto& [peer, places] : there) hear.push_back(words(peer, places.data(), places.size()));
  if (!tell.empty() || !hear.empty()) swap_words(tell, hear);
  for (const auto& [peer, places] : here) puts_.receive(peer, static_cast<int>(places.size()));
  for (const auto& [peer, places] : there) {
    auto place = places.begin();
    for (const Transfer& send : sends_) {
      if (send.peer != peer) continue;
      if (place->bytes != static_cast<std::int64_t>(send.bytes))
        throw Error(sentence(peer) + ": a message of " + std::to_string(send.bytes) + " bytes is sent where one of " +
                    std::to_string(place->bytes) + " is expected");
      puts_.put(peer, send.data, send.bytes, static_cast<std::size_t>((place++)->offset));
    }
  }
  for (const Transfer& send : sends_)
    if (!there.contains(send.peer)) other_sends_.push_back(send);
}

HALOGEN_INLINE void NcclExchange::swap_words(const std::vector<Words>& tell, const std::vector<Words>& hear) {
  const auto list = [](const std::vector<Words>& all, std::vector<HostSegment>& segments) {
    std::vector<Transfer> transfers;
    for (const Words& words : all) {
      transfers.push_back({words.peer, words.data.data, words.data.bytes});
      segments.push_back(words.data);
    }
    return transfers;
  };
  std::vector<Transfer> receives = list(hear, staging_.targets), sends = list(tell, staging_.sources);
  post_staged(receives, sends);
  wait();
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
