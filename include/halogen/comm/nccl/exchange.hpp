// A prepared exchange over NCCL: all its sends and receives in one group on the stream.
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
#include "halogen/comm/self_copy.hpp"
#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen::detail {

/// Host memory goes through NCCL in rounds of about so many bytes. A variable, so that a test can make all data long.
inline std::size_t nccl_round_bytes = std::size_t{64} << 20;

/// NCCL knows no tags and pairs the messages of two ranks in the order in which both post them, so they are posted in
/// the order of tags, and under one tag in that given. What a rank sends itself is a copy on the stream. The first
/// start compares lengths with the peers, since NCCL would hang or fill half a halo, and waits for that.
class NcclExchange final : public PreparedExchange {
 public:
  NcclExchange(std::shared_ptr<NcclHandle> handle, std::span<const Transfer> receives, std::span<const Transfer> sends,
               std::string what)
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

  const std::string& what() const override { return what_; }

  void start() override {
    if (under_way_) throw Error(what_ + " on \"" + handle_->label() + "\" was started while still under way");
    handle_->check_health();
    if (!receives_.empty() || !sends_.empty()) {
      if (!std::exchange(lengths_agree_, true)) compare_lengths();
      for (const Transfer& send : sends_) comm_stats().messages.add(send.bytes);
      if (on_device_)
        post(receives_, sends_);
      else
        start_staged();
    }
    copies_.copy();
  }

  bool test() override {
    if (!under_way_) return true;
    handle_->check_health();
    if (!staging_.passed()) return false;
    under_way_ = false;
    handle_->check_health();  // an abort lets the mark pass as well
    staging_.finish();
    return true;
  }

 private:
  std::vector<Transfer> in_order_of_tags(std::span<const Transfer> transfers) const {
    std::vector<Transfer> list;
    for (const Transfer& transfer : transfers)
      if (transfer.bytes > 0 && transfer.peer != handle_->rank()) list.push_back(transfer);
    std::ranges::stable_sort(list, {}, &Transfer::tag);
    return list;
  }

  void post(const std::vector<Transfer>& receives, const std::vector<Transfer>& sends) {
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

  /// Sources and targets of `staging_` are set; the transfers' memory is replaced by their places in it.
  void post_staged(std::vector<Transfer>& receives, std::vector<Transfer>& sends) {
    staging_.begin();
    std::byte* in = staging_.in();
    for (Transfer& send : sends) send.data = std::exchange(in, in + send.bytes);
    std::byte* out = staging_.out();
    for (Transfer& receive : receives) receive.data = std::exchange(out, out + receive.bytes);
    post(receives, sends);
    staging_.end();
    under_way_ = true;
  }

  void wait() {
    poll_until([this] { return test(); });
  }

  /// A message is as many rounds long for its sender as for its receiver; the last round is left under way.
  void start_staged() {
    const std::size_t most = std::max<std::size_t>(1, nccl_round_bytes / (receives_.size() + sends_.size()));
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

  /// Each rank tells those it sends to how many bytes these are, and hears it from those it receives from.
  void compare_lengths() {
    std::map<int, std::int64_t> expected, told, own;
    for (const Transfer& receive : receives_) expected[receive.peer] += static_cast<std::int64_t>(receive.bytes);
    for (const Transfer& send : sends_) own[send.peer] += static_cast<std::int64_t>(send.bytes);
    std::vector<Transfer> receives, sends;
    const auto add = [](int peer, std::int64_t& number, std::vector<Transfer>& list, std::vector<HostSegment>& words) {
      list.push_back({peer, &number, sizeof number});
      words.push_back({reinterpret_cast<std::byte*>(&number), sizeof number});
    };
    for (const auto& [peer, bytes] : expected) add(peer, told[peer], receives, staging_.targets);
    for (auto& [peer, bytes] : own) add(peer, bytes, sends, staging_.sources);
    post_staged(receives, sends);
    wait();
    for (const auto& [peer, bytes] : expected)
      if (told[peer] != bytes)
        throw Error(what_ + " on \"" + handle_->label() + "\", peer " + std::to_string(peer) + ": sent " +
                    std::to_string(told[peer]) + " bytes where " + std::to_string(bytes) + " were expected");
  }

  std::shared_ptr<NcclHandle> handle_;
  std::string what_;
  SelfCopies copies_;
  std::vector<Transfer> receives_, sends_;              // to and from others
  std::vector<Transfer> round_receives_, round_sends_;  // kept for their memory
  std::shared_ptr<const NcclOperation> operation_;
  bool on_device_ = true;
  bool lengths_agree_ = false;
  bool under_way_ = false;
  NcclStaging staging_;
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
