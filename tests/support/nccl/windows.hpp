// Memory that the stand-in's processes write into each other's: windows and counters of signals. What is put lands at
// once, whatever its receiver is doing: as early as NCCL may let it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace standin {

/// Where other processes find a piece of shared memory.
struct Place {
  std::int64_t process, file, bytes;
};

/// Memory that other processes can map, or that of another, mapped.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : SharedMemory(memfd_create("nccl stand-in", MFD_CLOEXEC), static_cast<std::int64_t>(bytes), true) {}
  explicit SharedMemory(const Place& place)
      : SharedMemory(open(("/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.file)).c_str(),
                          O_RDWR | O_CLOEXEC),
                     place.bytes, false) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    munmap(data_, static_cast<std::size_t>(bytes_));
    close(file_);
  }

  char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  Place place() const { return {getpid(), file_, bytes_}; }

 private:
  SharedMemory(int file, std::int64_t bytes, bool is_new) : file_(file), bytes_(bytes) {
    void* data = MAP_FAILED;
    if (file >= 0 && (!is_new || ftruncate(file, bytes) == 0))
      data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) std::perror("nccl stand-in: shared memory"), std::abort();
    data_ = static_cast<char*>(data);
  }

  int file_;
  std::int64_t bytes_;
  char* data_ = nullptr;
};

/// What ncclMemAlloc gave, by where it ends.
inline std::map<const char*, std::unique_ptr<SharedMemory>>& allocated() {
  static auto& all = *new std::map<const char*, std::unique_ptr<SharedMemory>>;
  return all;
}
/// The one in which the address lies, or null.
inline SharedMemory* allocated_around(const void* data) {
  const auto* place = static_cast<const char*>(data);
  const auto found = allocated().upper_bound(place);
  return found != allocated().end() && place >= found->second->data() ? found->second.get() : nullptr;
}

/// A window of all ranks.
struct Window {
  const char* data;
  std::int64_t bytes;
  std::vector<std::unique_ptr<SharedMemory>> memory;  // of the peers; null for this rank
  std::vector<std::int64_t> offsets;                  // of their windows in it

  bool holds(const void* place, std::int64_t count) const {
    const auto* begin = static_cast<const char*>(place);
    return begin >= data && begin + count <= data + bytes;
  }
};

/// How many signals of each rank have come to this one, and how many it has waited for.
class Signals {
 public:
  explicit Signals(int size) : own_(size * sizeof(Count)), awaited_(size), peers_(size) {}

  Place place() const { return own_.place(); }
  void find(int peer, const Place& place) { peers_[peer] = std::make_unique<SharedMemory>(place); }

  void give(int peer, int own_rank) { ++counts(*peers_[peer])[own_rank]; }
  void expect(int peer, int count) { awaited_[peer] += count; }
  bool arrived(int peer) const { return counts(own_)[peer] >= awaited_[peer]; }
  bool all_were_awaited() const {
    for (std::size_t r = 0; r < awaited_.size(); ++r)
      if (counts(own_)[r] != awaited_[r]) return false;
    return true;
  }

 private:
  using Count = std::atomic<std::int64_t>;
  static Count* counts(const SharedMemory& memory) { return reinterpret_cast<Count*>(memory.data()); }

  SharedMemory own_;
  std::vector<std::int64_t> awaited_;
  std::vector<std::unique_ptr<SharedMemory>> peers_;
};

}  // namespace standin
