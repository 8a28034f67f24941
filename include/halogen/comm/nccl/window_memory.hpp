// Device memory that peers may write into: one piece of a size that all ranks have, given out in parts.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "halogen/comm/nccl/library.hpp"
#include "halogen/comm/stream.hpp"

namespace halogen::detail {

/// Every communicator registers it whole when it is made, which all its ranks do together; what a rank then takes of it
/// is its own affair (docs/decisions/0013-windows-for-halos.md). A part may be given back while its last use is still
/// to come in the stream, since the next one's use comes behind it there.
class NcclWindowMemory : public std::enable_shared_from_this<NcclWindowMemory> {
 public:
  /// Throws Error where the device has no more so much memory.
  explicit NcclWindowMemory(std::size_t bytes) : bytes_(bytes) {
    void* data = nullptr;
    const ncclResult_t code = library_.mem_alloc(&data, bytes);
    if (code != ncclSuccess)
      throw Error("HALOGEN_NCCL_WINDOWS=1 needs " + std::to_string(bytes >> 20) +
                  " MiB of device memory, and NCCL says " + library_.error_string(code) +
                  ": set HALOGEN_NCCL_WINDOW_MIB to less, or HALOGEN_NCCL_WINDOWS=0");
    data_ = static_cast<std::byte*>(data);
    free_[0] = bytes;
  }
  NcclWindowMemory(const NcclWindowMemory&) = delete;
  NcclWindowMemory& operator=(const NcclWindowMemory&) = delete;
  /// What outlives Kokkos, in a buffer of a static, is left to the end of the process.
  ~NcclWindowMemory() {
    if (!stream_ended()) library_.mem_free(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// So much of it, given back with the last copy of the pointer; null where no such piece is left.
  std::shared_ptr<void> take(std::size_t bytes) {
    const std::size_t room = (bytes + grain - 1) / grain * grain;
    for (auto gap = free_.begin(); room > 0 && gap != free_.end(); ++gap) {
      const std::size_t begin = gap->first, size = gap->second;  // clang 14 captures no bindings
      if (size < room) continue;
      free_.erase(gap);
      if (size > room) free_[begin + room] = size - room;
      return {data_ + begin, [self = shared_from_this(), begin, room](void*) { self->give_back(begin, room); }};
    }
    return nullptr;
  }

  /// Whether all of it lies here.
  bool holds(const void* data, std::size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(data);
    return begin >= data_ && begin < data_ + bytes_ && bytes <= bytes_ - offset_of(data);
  }
  std::size_t offset_of(const void* data) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(data) - data_);
  }

 private:
  static constexpr std::size_t grain = 256;

  void give_back(std::size_t begin, std::size_t size) {
    auto next = free_.upper_bound(begin);
    if (next != free_.end() && next->first == begin + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == begin)
      std::prev(next)->second += size;
    else
      free_[begin] = size;
  }

  const NcclLibrary& library_ = NcclLibrary::get();
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::map<std::size_t, std::size_t> free_;  // sizes of gaps by where they begin
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
