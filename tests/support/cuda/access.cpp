// Loads, stores and atomic operations, and what is checked about each.
#include <cmath>

#include "forms.hpp"
#include "memory.hpp"
#include "shared.hpp"

namespace emulated {
namespace {

enum class Way { load, store, change };

char* local_data(Warp& warp, int lane, u64 place) { return warp.local + (place >> 3) * 256 + lane * 8 + (place & 7); }

std::string thread_text(int thread) {
  return "thread " + std::to_string(thread) + " of the block (lane " + std::to_string(thread % lanes) + " of warp " +
         std::to_string(thread / lanes) + ")";
}

u64 address_of(Warp& warp, const Instruction& i, u32 place, int lane) {
  const u64 base = i.width == 8 ? at<u64>(warp, place)[lane] : at<u32>(warp, place)[lane];
  u64 address = base + static_cast<u64>(i.offset);
  if (i.space == space_shared || i.space == space_local || (i.space == space_params && address >> space_shift == 0))
    address += base_of(static_cast<Space>(i.space));
  return address;
}

const char* name_of(Way way) { return way == Way::load ? "reads" : way == Way::store ? "writes" : "changes"; }

/// Where the bytes of a global address lie, after the checks.
template <Way way>
char* in_memory(Warp& warp, const Instruction& i, int lane, u64 address, u32 size) {
  if (!Memory::in_region(address, size)) {
    finding(warp, i, lane, std::string("a kernel ") + name_of(way) + " beyond the device's memory", address);
    return nullptr;
  }
  if (!checks().memory) return memory().data(address);
  u8* const shadow = memory().shadow(address);
  constexpr u64 every = 0x0101010101010101ull;
  for (u32 done = 0; done < size;) {
    const u32 now = size - done < 8 ? size - done : 8;
    u64 state = every * (is_allocated | is_written);
    std::memcpy(&state, shadow + done, now);
    if ((state & every) != every) {
      finding(warp, i, lane, std::string("a kernel ") + name_of(way) + " what is not allocated", address);
      return nullptr;
    }
    if (way != Way::store && (state & (every << 1)) != every << 1)
      finding(warp, i, lane, std::string("a kernel ") + name_of(way) + " memory that nobody wrote", address);
    if (way != Way::load) std::memset(shadow + done, is_allocated | is_written, now);
    done += now;
  }
  return memory().data(address);
}

template <Way way>
char* in_shared(Warp& warp, const Instruction& i, int lane, u64 place, u32 size, bool atomic, const void* value) {
  auto& block = shared();
  if (!block.holds(place, size)) {
    finding(warp, i, lane,
            std::string("a kernel ") + name_of(way) + " beyond its shared memory, at byte " +
                std::to_string(static_cast<s64>(place) - (place >= static_start ? static_start : dynamic_start)) +
                " of " + std::to_string(warp.block->launch->dynamic_shared) + " that the launch has");
    return nullptr;
  }
  if (checks().memory && way != Way::store && !block.written(place, size))
    finding(warp, i, lane,
            std::string("a kernel ") + name_of(way) + " shared memory that nobody wrote, at byte " +
                std::to_string(place - dynamic_start));
  if (checks().races) {
    int with = -1;
    if (way != Way::store) with = block.read(warp, lane, place, size, atomic);
    if (way != Way::load) with = std::max(with, block.write(warp, lane, place, size, atomic, value));
    if (with >= 0)
      finding(warp, i, lane,
              std::string("a race: no barrier lies between this and an access by ") + thread_text(with) + ", at byte " +
                  std::to_string(place - dynamic_start) + " of shared memory");
  } else if (way != Way::load) {
    block.write(warp, lane, place, size, true, value);
  }
  return block.data(place);
}

/// Where `size` bytes at an address lie; null where a finding says that they must not be touched. `value`: what is
/// written.
template <Way way>
char* resolve(Warp& warp, const Instruction& i, int lane, u64 address, u32 size, const void* value) {
  if (i.space == space_device && !Memory::holds(address)) {
    finding(warp, i, lane, "an access of global memory elsewhere", address);
    return nullptr;
  }
  const u64 place = address & (base_of(Space{1}) - 1);
  switch (address >> space_shift) {
    case space_device:
    case space_pinned:
      return in_memory<way>(warp, i, lane, address, size);
    case space_shared:
      return in_shared<way>(warp, i, lane, place, size, way == Way::change, value);
    case space_local:
      if (place < 16 || place + size > warp.local_top) {
        finding(warp, i, lane, std::string("a kernel ") + name_of(way) + " beyond its local memory", address);
        return nullptr;
      }
      return local_data(warp, lane, place);
    case space_params:
      if (way == Way::load && place + size <= warp.block->launch->parameters.size())
        return const_cast<char*>(warp.block->launch->parameters.data()) + place;
      [[fallthrough]];
    default:
      finding(warp, i, lane, std::string("a kernel ") + name_of(way) + " an address that is the host's, or nobody's",
              address);
      return nullptr;
  }
}

void check_alignment(Warp& warp, const Instruction& i, int lane, u64 address) {
  const u64 bytes = u64{i.size} * i.count;
  if (checks().memory && (address & (bytes - 1)) != 0)
    finding(warp, i, lane, "an address that is no multiple of " + std::to_string(bytes), address);
}

u64 extended(const Instruction& i, u64 bits) {
  if (!i.is_signed || i.register_bytes <= i.size) return bits;
  const int shift = 64 - 8 * i.size;
  return static_cast<u64>(static_cast<s64>(bits << shift) >> shift);
}

/// Whether all lanes have one address, in local memory: it is then a row of words.
bool is_local_row(Warp& warp, const Instruction& i, u32 place, u64& address) {
  if (i.count != 1 || i.width != 8) return false;
  const u64* const base = at<u64>(warp, place);
  const u64 first = base[__builtin_ctz(warp.mask)];
  u64 differs = 0;
  if (warp.mask == all_lanes)
    for (int lane = 0; lane < lanes; ++lane) differs |= base[lane] ^ first;
  else
    for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) differs |= base[__builtin_ctz(rest)] ^ first;
  if (differs != 0) return false;
  address = first + static_cast<u64>(i.offset);
  if (i.space == space_local) address += base_of(space_local);
  const u64 within = address & (base_of(Space{1}) - 1);
  if (address >> space_shift != space_local || within % i.size != 0 || within < 16 || within + i.size > warp.local_top)
    return false;
  address = within;
  return true;
}

/// One element of T for each lane, in words of 8 bytes, and registers of R.
template <class T, class R, bool loads>
void row(Warp& warp, const Instruction& i, char* words, u32 k) {
  R* const value = at<R>(warp, i.o[1 + k]);
  each_lane(warp.mask, [&](int lane) {
    T* const there = reinterpret_cast<T*>(words + lane * 8);
    if constexpr (loads)
      value[lane] = static_cast<R>(*there);
    else
      *there = static_cast<T>(value[lane]);
  });
}
template <class T, bool loads>
void row_in_register(Warp& warp, const Instruction& i, char* words, u32 k) {
  if (i.register_bytes == 8) return row<T, u64, loads>(warp, i, words, k);
  if (i.register_bytes == 4) return row<T, u32, loads>(warp, i, words, k);
  row<T, u16, loads>(warp, i, words, k);
}
template <bool loads>
void row_of(Warp& warp, const Instruction& i, char* words, u32 k) {
  if (i.size == 8) return row_in_register<u64, loads>(warp, i, words, k);
  if (i.size == 4)
    return i.is_signed ? row_in_register<s32, loads>(warp, i, words, k)
                       : row_in_register<u32, loads>(warp, i, words, k);
  if (i.size == 2)
    return i.is_signed ? row_in_register<s16, loads>(warp, i, words, k)
                       : row_in_register<u16, loads>(warp, i, words, k);
  i.is_signed ? row_in_register<s8, loads>(warp, i, words, k) : row_in_register<u8, loads>(warp, i, words, k);
}

}  // namespace

void handlers::load(Warp& warp, const Instruction& i) {
  u64 place;
  if ((i.space == 0 || i.space == space_local) && is_local_row(warp, i, i.o[0], place))
    return row_of<true>(warp, i, local_data(warp, 0, place), 0);
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const u64 address = address_of(warp, i, i.o[0], lane);
    check_alignment(warp, i, lane, address);
    u64 got[4] = {};
    for (u32 k = 0; k < i.count; ++k)
      if (const char* from = resolve<Way::load>(warp, i, lane, address + k * i.size, i.size, nullptr))
        std::memcpy(&got[k], from, i.size);
    for (u32 k = 0; k < i.count; ++k) {
      if (i.o[1 + k] == none) continue;
      const u64 bits = extended(i, got[k]);
      std::memcpy(at<char>(warp, i.o[1 + k]) + lane * i.register_bytes, &bits, i.register_bytes);
    }
  }
}

void handlers::store(Warp& warp, const Instruction& i) {
  u64 place;
  if ((i.space == 0 || i.space == space_local) && is_local_row(warp, i, i.o[0], place))
    return row_of<false>(warp, i, local_data(warp, 0, place), 0);
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const u64 address = address_of(warp, i, i.o[0], lane);
    check_alignment(warp, i, lane, address);
    for (u32 k = 0; k < i.count; ++k) {
      const char* const value = at<char>(warp, i.o[1 + k]) + lane * i.register_bytes;
      if (char* to = resolve<Way::store>(warp, i, lane, address + k * i.size, i.size, value))
        std::memcpy(to, value, i.size);
    }
  }
}

namespace {

template <class T>
T changed(const Instruction& i, T old, T b, T c) {
  switch (i.kind) {
    case 1:
      return static_cast<T>(old + b);
    case 2:
      return b < old ? b : old;
    case 3:
      return old < b ? b : old;
    case 7:
      return b;
    case 8:
      return old == b ? c : old;
    case 9:
      return old >= b ? T(0) : static_cast<T>(old + 1);
    case 10:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  if constexpr (std::is_integral_v<T>) {
    if (i.kind == 4) return old & b;
    if (i.kind == 5) return old | b;
    if (i.kind == 6) return old ^ b;
  }
  unknown("an atomic operation that is not known");
}

template <class T>
void atomic_of(Warp& warp, const Instruction& i) {
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const u64 address = address_of(warp, i, i.o[1], lane);
    check_alignment(warp, i, lane, address);
    T old{};
    char* const place = resolve<Way::change>(warp, i, lane, address, sizeof(T), &old);
    if (place == nullptr) continue;
    std::memcpy(&old, place, sizeof old);
    const T value = changed<T>(i, old, at<T>(warp, i.o[2])[lane], i.o[3] == none ? T{} : at<T>(warp, i.o[3])[lane]);
    std::memcpy(place, &value, sizeof value);
    if (i.o[0] != none) at<T>(warp, i.o[0])[lane] = old;
  }
}

}  // namespace

void handlers::atomic(Warp& warp, const Instruction& i) {
  if (i.is_real) return i.size == 4 ? atomic_of<float>(warp, i) : atomic_of<double>(warp, i);
  if (i.size == 4) return i.is_signed ? atomic_of<s32>(warp, i) : atomic_of<u32>(warp, i);
  return i.is_signed ? atomic_of<s64>(warp, i) : atomic_of<u64>(warp, i);
}

// -- parameters
// --------------------------------------------------------------------------------------------------------

void handlers::load_parameter(Warp& warp, const Instruction& i) {
  const auto& from = warp.block->launch->parameters;
  for (u32 k = 0; k < i.count; ++k) {
    if (i.o[1 + k] == none) continue;
    u64 bits = 0;
    const u64 place = static_cast<u64>(i.offset) + k * i.size;
    if (place + i.size > from.size()) {
      finding(warp, i, __builtin_ctz(warp.mask), "a kernel reads beyond its parameters");
      return;
    }
    std::memcpy(&bits, from.data() + place, i.size);
    bits = extended(i, bits);
    const u32 to = i.o[1 + k];
    if (i.register_bytes == 8)
      each_lane(warp.mask, [&](int lane) { at<u64>(warp, to)[lane] = bits; });
    else if (i.register_bytes == 4)
      each_lane(warp.mask, [&](int lane) { at<u32>(warp, to)[lane] = static_cast<u32>(bits); });
    else
      each_lane(warp.mask, [&](int lane) { at<u16>(warp, to)[lane] = static_cast<u16>(bits); });
  }
}

namespace {

template <bool loads>
void words(Warp& warp, const Instruction& i) {
  for (u32 k = 0; k < i.count; ++k) {
    if (i.o[1 + k] == none) continue;
    const u64 place = static_cast<u64>(i.offset) + k * i.size;
    row_of<loads>(warp, i, at<char>(warp, i.o[0]) + (place >> 3) * 256 + (place & 7), k);
  }
}

}  // namespace

void handlers::load_word(Warp& warp, const Instruction& i) { words<true>(warp, i); }
void handlers::store_word(Warp& warp, const Instruction& i) { words<false>(warp, i); }

void handlers::local_address(Warp& warp, const Instruction& i) {
  const u64 address = warp.frames.back().local_base + static_cast<u64>(i.offset);
  if (i.width == 8)
    each_lane(warp.mask, [&](int lane) { at<u64>(warp, i.o[0])[lane] = address; });
  else
    each_lane(warp.mask, [&](int lane) { at<u32>(warp, i.o[0])[lane] = static_cast<u32>(address); });
}

void handlers::is_in_space(Warp& warp, const Instruction& i) {
  u32 bits = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const u64 address = at<u64>(warp, i.o[1])[lane];
    const bool in = i.space == space_device ? Memory::holds(address) : address >> space_shift == i.space;
    bits |= u32{in} << lane;
  }
  u32& to = *at<u32>(warp, i.o[0]);
  to = (to & ~warp.mask) | (bits & warp.mask);
}

}  // namespace emulated
