// The machine that runs PTX: registers of a warp, decoded instructions, functions, warps and blocks.
//
// A register has a value for each of 32 lanes, side by side in memory; a predicate is a word with a bit for each lane.
// An operand is a number: its upper two bits name the bank (the frame of the function, constants, special registers),
// the others the place in it. So an instruction reads all its operands alike, and is decoded once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emulated {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

inline constexpr int lanes = 32;
inline constexpr u32 all_lanes = 0xffffffffu;

// Generic addresses: the upper bits name the space. No address of the host has these.
inline constexpr int space_shift = 44;
enum Space : u64 { space_shared = 1, space_local = 2, space_device = 3, space_pinned = 4, space_params = 6 };
inline constexpr u64 base_of(Space space) { return u64{space} << space_shift; }

enum Bank : u32 { bank_frame = 0, bank_constants = 1, bank_special = 2 };
inline constexpr u32 operand(Bank bank, u32 place) { return u32{bank} << 30 | place; }

// Addresses of shared memory: what a launch asks for, and the module's own variables.
inline constexpr u32 dynamic_start = 1024, static_start = 0x40000, shared_end = 0x50000;

/// The special registers, in the order of their places in the bank.
enum Special : u32 {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem,
  smid,
  clock_low,
  specials
};

struct Warp;
struct Instruction;
struct Function;
struct Module;
using Handler = void (*)(Warp&, const Instruction&);

inline constexpr u32 none = 0xffffffffu;

struct Instruction {
  Handler run = nullptr;
  u32 guard = none;      ///< the predicate that lanes need
  bool negated = false;  ///< they need it to be false
  u8 size = 0;           ///< of an element in memory, in bytes
  u8 count = 1;          ///< elements of a vector
  u8 space = 0;          ///< of an access; 0: generic
  u8 kind = 0;           ///< of an instruction that has several (an atomic operation, a conversion's rounding)
  bool is_signed = false, is_real = false;
  u8 width = 8;           ///< bytes of a whole register, or of an address register
  u8 register_bytes = 0;  ///< of the registers of an access
  u32 line = 0;           ///< in the PTX
  u32 target = none;      ///< of a branch
  u32 meets = none;       ///< where the two ways of a branch meet again; none: where the function ends
  u32 o[6] = {none, none, none, none, none, none};
  s64 offset = 0;  ///< of an address
  const void* more = nullptr;
};

/// What a call copies: places in the caller's frame and in that of the called function, 8-byte words of 32 lanes.
struct Call {
  std::string name;
  Function* function = nullptr;
  struct Copy {
    u32 caller, callee, words;
  };
  std::vector<Copy> arguments, results;
  std::vector<u32> argument_places, result_places;  ///< in the caller's frame
};

struct Parameter {
  std::string name;
  u32 bytes = 0, align = 1, place = 0, element = 1;
};

struct Function {
  std::string name;
  Module* module = nullptr;
  bool entry = false;
  bool decoded = false;
  std::string_view body;  ///< between its braces
  u32 first_line = 0;     ///< of the body
  std::vector<Parameter> parameters, results;
  std::vector<Instruction> code;
  u32 frame_bytes = 0;
  u32 local_bytes = 0;
  u32 shared_bytes = 0;  ///< static, of the module's variables that it and what it calls names
  u32 parameter_bytes = 0;
  std::vector<Function*> calls;
  int max_threads = 0;
};

struct Entry {
  u32 pc, meets, mask;
};
struct Frame {
  Function* function;
  const Call* call;
  char* registers;
  u32 bottom;      ///< of its entries in the warp's stack
  u32 local_base;  ///< of its variables
};

struct Grid {
  u32 x = 1, y = 1, z = 1;
  u64 size() const { return u64{x} * y * z; }
};

struct Launch {
  Function* function = nullptr;
  Grid grid, block;
  u32 dynamic_shared = 0;
  std::vector<char> parameters;
};

struct Block;
struct Warp {
  char* bank[3] = {};
  u32 mask = 0;  ///< lanes that carry out the current instruction
  u32 live = 0;  ///< lanes that have not ended
  u32 carry = 0;
  int number = 0;
  bool waits = false;  ///< at a barrier
  u32 barrier = 0;
  u32 says = 0;       ///< bits of a predicate, where the barrier joins them
  u64 met = 0;        ///< when its lanes met last
  u64 exchanged = 0;  ///< when they met last, or exchanged values by a shuffle
  Block* block = nullptr;
  std::vector<Entry> stack;
  std::vector<Frame> frames;
  char* arena = nullptr;  ///< of its frames
  char* local = nullptr;  ///< words of 8 bytes, side by side for 32 lanes
  u32 local_top = 0;
  char* special = nullptr;

  const Instruction* now = nullptr;
};

struct Block {
  const Launch* launch = nullptr;
  Grid index;
  u32 shared_bytes = 0;
  std::vector<Warp>* warps = nullptr;
};

template <class T>
inline T* at(Warp& warp, u32 place) {
  return reinterpret_cast<T*>(warp.bank[place >> 30] + (place & 0x3fffffffu));
}

/// Calls f(lane) for the lanes of the mask. Where it is full the compiler makes vectors of the loop.
template <class F>
inline __attribute__((always_inline)) void each_lane(u32 mask, F f) {
  if (mask == all_lanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < lanes; ++lane) f(lane);
  } else {
    for (u32 rest = mask; rest != 0; rest &= rest - 1) f(__builtin_ctz(rest));
  }
}

/// A module: the text of a fat binary, its functions and variables.
struct Variable {
  std::string name;
  Space space = space_device;
  u64 address = 0;  ///< of a shared one: its offset
  u64 bytes = 0;
  u32 align = 1, element = 1;
  bool dynamic = false;  ///< extern shared: its size is the launch's
  std::string_view initial;
};

/// Decodes a function, once; throws std::runtime_error with its name, line and text where something is not known.
void decode(Function& function);

/// Sets `meets` of each branch: the first instruction that all ways from it pass.
void find_meetings(Function& function);

/// Runs a kernel to its end.
void run(const Launch& launch);

/// The line of a module's text.
std::string line_of(const Module& module, u32 line);
std::string demangled(const std::string& name);

}  // namespace emulated
