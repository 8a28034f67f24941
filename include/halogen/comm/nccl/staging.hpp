// Words in host memory on their way through NCCL, which reads device memory only.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "halogen/comm/stream.hpp"

namespace halogen::detail {

/// A piece of the caller's memory.
struct HostSegment {
  std::byte* data;
  std::size_t bytes;
};

/// Memory of a space that grows without keeping its values. What outlives Kokkos, in a communicator of a static, is
/// left to the end of the process.
template <class Space>
class StagingMemory {
 public:
  explicit StagingMemory(const char* label) : label_(label) {}
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;
  ~StagingMemory() { release(); }

  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    release();
    data_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<Space>(label_, bytes));
    bytes_ = bytes;
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void release() {
    if (data_ != nullptr && !Kokkos::is_finalized()) Kokkos::kokkos_free<Space>(data_);
    data_ = nullptr;
    bytes_ = 0;
  }

  const char* label_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One round: `in` segments lie side by side in in(), where the operation reads, `out` segments in out(), where it
/// writes. Everything is queued on the stream but the last copy, out of pinned memory, which finish() makes. Places are
/// reused and grow.
class NcclStaging {
 public:
  std::vector<HostSegment> sources, targets;  ///< of the next round; the caller fills them

  void clear() { sources.clear(), targets.clear(); }

  std::byte* in() const { return device_.data(); }
  std::byte* out() const { return device_.data() + room(bytes_in_); }

  void begin() {
    if (is_capturing())
      throw Error("a transfer of host memory over NCCL cannot be recorded into a graph: give device memory");
    bytes_in_ = total(sources), bytes_out_ = total(targets);
    const std::size_t bytes = room(bytes_in_) + bytes_out_;
    if (std::min(device_.bytes(), pinned_.bytes()) < bytes) {  // a refused allocation may have left one alone
      const std::size_t more = std::max(bytes, 2 * device_.bytes());
      device_.reserve(more), pinned_.reserve(more);
    }
    std::byte* place = pinned_.data();
    for (const HostSegment& source : sources) {
      std::memcpy(place, source.data, source.bytes);
      place += source.bytes;
    }
    if (bytes_in_ > 0) copy_in_order(device_.data(), pinned_.data(), bytes_in_);
  }
  void end() {
    if (bytes_out_ > 0) copy_in_order(pinned_.data() + room(bytes_in_), out(), bytes_out_);
    end_.record();
  }

  bool passed() const { return end_.passed(); }

  /// Once passed.
  void finish() {
    const std::byte* place = pinned_.data() + room(bytes_in_);
    for (const HostSegment& target : targets) {
      std::memcpy(target.data, place, target.bytes);
      place += target.bytes;
    }
    clear();
  }

 private:
#ifdef KOKKOS_ENABLE_CUDA
  using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#else
  using PinnedSpace = Kokkos::HostSpace;
#endif

  static std::size_t total(const std::vector<HostSegment>& segments) {
    std::size_t bytes = 0;
    for (const HostSegment& segment : segments) bytes += segment.bytes;
    return bytes;
  }
  static std::size_t room(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  StagingMemory<Kokkos::DefaultExecutionSpace::memory_space> device_{"halogen::nccl_staging"};
  StagingMemory<PinnedSpace> pinned_{"halogen::pinned"};
  std::size_t bytes_in_ = 0, bytes_out_ = 0;
  StreamMark end_;
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
