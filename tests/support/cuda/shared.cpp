#include "shared.hpp"

#include <cstdlib>
#include <cstring>

namespace emulated {
namespace {

u8 bytes_in_word(u64 place, u32 size, u64 word) {
  u8 bits = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u64 byte = word * 4 + i;
    if (byte >= place && byte < place + size) bits |= static_cast<u8>(1u << i);
  }
  return bits;
}

}  // namespace

Shared::Shared() : bytes(new char[shared_end]), words(new Word[shared_end / 4]) {}

Shared& shared() {
  static Shared one;
  return one;
}

void Shared::start(const Block& block) {
  block_start = block_met = ++time;
  dynamic_end = dynamic_start + block.launch->dynamic_shared;
  static_end = static_start + block.launch->function->shared_bytes;
}

bool Shared::written(u64 place, u32 size) const {
  for (u64 word = place / 4; word <= (place + size - 1) / 4; ++word) {
    const u8 bits = bytes_in_word(place, size, word);
    if (words[word].block != block_start || (words[word].written_bytes & bits) != bits) return false;
  }
  return true;
}

int Shared::read(const Warp& warp, int lane, u64 place, u32 size, bool atomic) {
  const u32 by = static_cast<u32>(warp.number * lanes + lane);
  int races = -1;
  for (u64 number = place / 4; number <= (place + size - 1) / 4; ++number) {
    Word& word = words[number];
    const u8 bits = bytes_in_word(place, size, number);
    if ((word.write_bytes & bits) != 0 && !(atomic && word.write_atomic) &&
        !ordered(warp, word.write_time, word.writer, by))
      races = word.writer;
    if (word.read_time >= block_met && word.reader != by) {
      const bool same_warp = word.reader / lanes == by / lanes;
      word.many_warps = word.many_warps || !same_warp;
      word.many = same_warp ? (word.many || word.read_time >= warp.exchanged) : false;
    } else if (word.read_time < block_met) {
      word.many = word.many_warps = false;
    }
    if (word.read_time < warp.exchanged && word.reader / lanes == by / lanes) word.many = false;
    word.read_time = time, word.reader = static_cast<u16>(by), word.read_bytes = bits, word.read_atomic = atomic;
  }
  return races;
}

int Shared::write(const Warp& warp, int lane, u64 place, u32 size, bool atomic, const void* value) {
  const u32 by = static_cast<u32>(warp.number * lanes + lane);
  const bool changes = std::memcmp(data(place), value, size) != 0;
  int races = -1;
  for (u64 number = place / 4; number <= (place + size - 1) / 4; ++number) {
    Word& word = words[number];
    const u8 bits = bytes_in_word(place, size, number);
    if (word.block != block_start) word.block = block_start, word.written_bytes = 0;
    if (changes && (word.write_bytes & bits) != 0 && !(atomic && word.write_atomic) &&
        !ordered(warp, word.write_time, word.writer, by))
      races = word.writer;
    if (changes && (word.read_bytes & bits) != 0 && !(atomic && word.read_atomic) && word.read_time >= block_met) {
      const bool other_warp = word.many_warps || word.reader / lanes != by / lanes;
      const bool other_lane = word.read_time >= warp.exchanged && (word.many || word.reader != by);
      if (other_warp || other_lane) races = word.reader;
    }
    word.write_time = time, word.writer = static_cast<u16>(by), word.write_bytes = bits, word.write_atomic = atomic;
    word.written_bytes |= bits;
  }
  return races;
}

}  // namespace emulated
