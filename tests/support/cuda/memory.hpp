// The device's memory, and memory of the host that a device reaches.
//
// A program sees addresses of the device that nothing is mapped to: if the host reads or writes there, the process gets
// a signal, which names the address and its allocation. Kernels and copies reach the bytes at a fixed distance. A
// second distance away lies a shadow: for each byte whether it is allocated and whether somebody has written it.
// Addresses are not used again, so that a pointer to freed memory is found too.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "machine.hpp"

namespace emulated {

enum Shadow : u8 { is_allocated = 1, is_written = 2 };

struct Allocation {
  u64 address = 0, bytes = 0;
  std::string label;
  bool freed = false;
};

class Memory {
 public:
  Memory();

  u64 allocate(Space space, u64 bytes, std::string label);
  /// False where no allocation begins there.
  bool free(u64 address);
  const Allocation* find(u64 address) const;  ///< the one that holds this address, or the last before it
  std::string describe(u64 address) const;    ///< "12 bytes into ..."

  static bool holds(u64 address) {
    return address >> space_shift == space_device || address >> space_shift == space_pinned;
  }
  /// Where the bytes lie; pinned memory: where the address says.
  char* data(u64 address) const {
    return reinterpret_cast<char*>(address >> space_shift == space_device ? address + to_data : address);
  }
  u8* shadow(u64 address) const {
    return reinterpret_cast<u8*>(address + (address >> space_shift == space_device ? to_shadow : pinned_to_shadow));
  }
  /// Whether the bytes are of one region, and so have a shadow.
  static bool in_region(u64 address, u64 bytes) {
    const u64 place = address & (base_of(Space{1}) - 1);
    return place < region_bytes && bytes < region_bytes && place + bytes <= region_bytes;
  }
  void mark_written(u64 address, u64 bytes);

  static constexpr u64 region_bytes = u64{64} << 30;

 private:
  u64 to_data = 0, to_shadow = 0, pinned_to_shadow = 0;
  u64 next_device, next_pinned;
  std::map<u64, Allocation> allocations;
};

Memory& memory();

/// Checks that CUDA_STANDIN_CHECKS asks for, all by default: a program that is known to be right runs faster without.
struct Checks {
  bool memory = true;  ///< bounds, alignment, memory that nobody wrote
  bool races = true;   ///< of shared memory
  bool go_on = false;  ///< count findings, and fail at the end: CUDA_STANDIN_GO_ON=1
};
const Checks& checks();

/// Says what a kernel did wrong: where, in which thread, at which address. The program ends, or fails at its end.
void finding(const Warp& warp, const Instruction& instruction, int lane, const std::string& what, u64 address = 0);
/// The same of a call of the runtime.
void finding(const std::string& what);
/// Something that the stand-in does not know. The program ends.
[[noreturn]] void unknown(const std::string& what);

}  // namespace emulated
