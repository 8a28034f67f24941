// The messages of an exchange that are put into windows.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <cstddef>
#include <vector>

#include "halogen/comm/nccl/handle.hpp"

namespace halogen::detail {

/// A rank writes to its peer without the peer's help, so the peer says first that it is ready:
///
///   1. a signal to each rank that sends here: what this rank receives into is free at this place
///   2. wait for one signal of each rank that is sent to
///   3. put each message and a signal behind it
///   4. wait for as many signals of each rank as it sends messages
///
/// NCCL counts the signals of a rank, whatever they mean, and a wait takes the next ones. No two are mixed up: those of
/// a rank arrive in the order of its stream, and for each exchange it gives in 1 and 3 as many as its peer waits for in
/// 2 and 4, in the same order, since both know alike which messages are put, and both start the exchanges between them
/// in one order. Nothing in 1 waits, 2 waits for 1 alone and 4 for 3, so ranks do not wait for each other in a ring.
/// Behind 4 nobody writes here any longer: whoever ends its communicator when its stream has ended harms no peer.
class NcclWindowMessages {
 public:
  bool empty() const { return ready_.empty() && puts_.empty(); }

  /// Into the peer's memory, `offset` bytes behind where it begins.
  void put(int peer, const void* data, std::size_t bytes, std::size_t offset) {
    if (goes_.empty() || goes_.back().peer != peer) goes_.push_back({1, peer});
    puts_.push_back({peer, data, bytes, offset});
  }
  /// All messages of a peer.
  void receive(int peer, int messages) {
    ready_.push_back(peer);
    arrivals_.push_back({messages, peer});
  }

  /// Within NcclHandle::call.
  ncclResult_t issue(const NcclLibrary& nccl, const NcclHandle& handle, cudaStream_t where) {
    const auto all = [&](const auto& list, auto emit) {
      return NcclHandle::grouped(nccl, [&](const NcclLibrary&) {
        ncclResult_t code = ncclSuccess;
        for (const auto& one : list)
          if (code == ncclSuccess) code = emit(one);
        return code;
      });
    };
    const auto wait_for = [&](std::vector<nccl_windows::Signals>& signals) {
      return nccl.wait_signal(static_cast<int>(signals.size()), signals.data(), handle.comm(), where);
    };
    ncclResult_t code = ncclSuccess;
    // Behind a fault the communicator may be gone; whoever called this throws it.
    const auto goes_on = [&](const auto& list) {
      return code == ncclSuccess && !list.empty() && !NcclWatch::get().failed();
    };
    if (goes_on(ready_)) code = all(ready_, [&](int peer) { return nccl.signal(peer, 0, 0, 0, handle.comm(), where); });
    if (goes_on(goes_)) code = wait_for(goes_);
    if (goes_on(puts_))
      code = all(puts_, [&](const Put& put) {
        return nccl.put_signal(put.data, put.bytes, ncclUint8, put.peer, handle.window(), put.offset, 0, 0, 0,
                               handle.comm(), where);
      });
    if (goes_on(arrivals_)) code = wait_for(arrivals_);
    return code;
  }

 private:
  struct Put {
    int peer;
    const void* data;
    std::size_t bytes, offset;
  };

  std::vector<int> ready_;
  std::vector<nccl_windows::Signals> goes_, arrivals_;
  std::vector<Put> puts_;
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
