// The messages that a rank sends to itself: copies within its own memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "halogen/comm/comm_statistics.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/comm/stream.hpp"
#include "halogen/comm/transfer.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// memmove that accepts null for zero bytes, and costs nothing where both are the same place. From device memory to
/// device memory it takes its place in the stream; between host and device it is done on return.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  if constexpr (has_stream) {
    const int on_device = is_device_memory(to) + is_device_memory(from);
    if (on_device > 0) copy_in_order(to, from, bytes);
    if (on_device == 1) wait_for_stream();
    if (on_device > 0) return;
  }
  std::memmove(to, from, bytes);
}

/// Pairs the receives from `rank` with the sends to it, by tag and order, and copies them on demand. Throws Error where
/// one is left over or the sizes of a pair differ: between ranks that would hang or fail, so it fails here too.
class SelfCopies {
 public:
  SelfCopies(int rank, std::span<const Transfer> receives, std::span<const Transfer> sends, const std::string& what);

  void copy() const;

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };

  static std::string name(int rank, const Transfer& transfer) {
    return std::to_string(rank) + " (to itself, tag " + std::to_string(transfer.tag) + ")";
  }

  std::vector<Copy> copies_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE SelfCopies::SelfCopies(int rank, std::span<const Transfer> receives, std::span<const Transfer> sends,
                                      const std::string& what) {
  const auto wanted = [rank](const Transfer& transfer) { return transfer.peer == rank && transfer.bytes > 0; };
  std::vector<const Transfer*> open;
  for (const Transfer& send : sends)
    if (wanted(send)) open.push_back(&send);
  for (const Transfer& receive : receives) {
    if (!wanted(receive)) continue;
    auto send = open.begin();
    while (send != open.end() && (*send)->tag != receive.tag) ++send;
    if (send == open.end()) throw Error(what + ": nothing is sent that rank " + name(rank, receive) + " receives");
    if ((*send)->bytes != receive.bytes)
      throw Error(what + ": rank " + name(rank, **send) + " sends " + std::to_string((*send)->bytes) +
                  " bytes but receives " + std::to_string(receive.bytes));
    copies_.push_back({receive.data, (*send)->data, receive.bytes});
    open.erase(send);
  }
  if (!open.empty()) throw Error(what + ": nothing receives what rank " + name(rank, *open.front()) + " sends");
}

HALOGEN_INLINE void SelfCopies::copy() const {
  for (const Copy& copy : copies_) {
    copy_bytes(copy.to, copy.from, copy.bytes);
    comm_stats().local_copies.add(copy.bytes);
  }
}
#endif

}  // namespace halogen::detail
