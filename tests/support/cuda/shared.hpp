// Shared memory of the block that runs, and who touched it last.
//
// Two accesses of a word are ordered if they are of one thread, if a barrier of the block lies between them, or, within
// a warp, a bar.warp.sync. A shuffle orders a warp's reads before it and writes behind it, as each lane has read by
// then; it does not order a write before it and a read behind it. A race is two accesses that are not ordered, one of
// them a write, unless both are atomic or the write changes nothing. Times count up and are never reset: a new block
// needs no clearing.
#pragma once

#include "machine.hpp"

namespace emulated {

class Shared {
 public:
  Shared();
  void start(const Block& block);
  void meet() { block_met = ++time; }
  void meet(Warp& warp) { warp.met = warp.exchanged = ++time; }
  void exchange(Warp& warp) { warp.exchanged = ++time; }

  /// Whether the bytes are of the block.
  bool holds(u64 place, u32 bytes) const {
    return (place >= dynamic_start && place + bytes <= dynamic_end) ||
           (place >= static_start && place + bytes <= static_end);
  }
  char* data(u64 place) { return bytes + place; }
  bool written(u64 place, u32 size) const;
  /// Notes an access and returns with whom it races: a thread of the block, or -1.
  int read(const Warp& warp, int lane, u64 place, u32 size, bool atomic);
  int write(const Warp& warp, int lane, u64 place, u32 size, bool atomic, const void* value);

 private:
  struct Word {
    u64 write_time = 0, read_time = 0;
    u16 writer = 0, reader = 0;
    u8 write_bytes = 0, read_bytes = 0;
    bool write_atomic = false, read_atomic = false;
    bool many = false;        ///< readers of the warp of `reader` since the last barrier of the block
    bool many_warps = false;  ///< readers of several warps
    u8 written_bytes = 0;     ///< by this block
    u64 block = 0;
  };
  bool ordered(const Warp& warp, u64 at_time, u32 thread, u32 by) const {
    if (at_time < block_met || thread == by) return true;
    return thread / lanes == by / lanes && at_time < warp.met;
  }
  char* bytes;
  Word* words;
  u64 time = 1, block_met = 1, block_start = 1;
  u64 dynamic_end = 0, static_end = 0;
};

Shared& shared();

}  // namespace emulated
