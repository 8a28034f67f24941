// Warps and blocks: which lanes carry out what, calls, barriers, the order of warps.
//
// A warp has a stack of entries: an instruction to go on at, lanes, and where they meet others. A branch that divides
// its lanes leaves an entry for all of them where its two ways meet, and pushes one for each way.
#include <sys/mman.h>

#include <chrono>
#include <exception>

#include "forms.hpp"
#include "memory.hpp"
#include "module.hpp"
#include "shared.hpp"

namespace emulated {

char* constant_values();

namespace {

constexpr u64 arena_bytes = u64{64} << 20, local_bytes = 512 * 1024;

char* reserve(u64 bytes) {
  void* const got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) unknown("no room for a warp");
  return static_cast<char*>(got);
}

u64 carried_out = 0;  ///< instructions, each lane counted

void enter(Warp& warp, Function& function, const Call* call, char* registers, u32 mask) {
  if (registers + function.frame_bytes > warp.arena + arena_bytes)
    unknown("calls of " + function.name + " are too deep");
  const u32 base = warp.local_top;
  warp.local_top = (base + function.local_bytes + 15) / 16 * 16;
  if (warp.local_top > local_bytes) unknown("local memory of " + function.name + " is used up");
  warp.frames.push_back({&function, call, registers, static_cast<u32>(warp.stack.size()), base});
  warp.bank[bank_frame] = registers;
  warp.stack.push_back({0, none, mask});
}

/// The function has ended for all lanes that called it.
void return_to_caller(Warp& warp) {
  const Frame done = warp.frames.back();
  warp.frames.pop_back();
  warp.local_top = done.local_base;
  if (warp.frames.empty()) return;
  warp.bank[bank_frame] = warp.frames.back().registers;
  for (const auto& copy : done.call->results)
    std::memcpy(at<char>(warp, copy.caller), done.registers + (copy.callee & 0x3fffffffu), copy.words * 256);
}

/// Goes on until the warp ends or waits at a barrier.
void go_on(Warp& warp) {
  while (!warp.frames.empty()) {
    if (warp.stack.size() == warp.frames.back().bottom) {
      return_to_caller(warp);
      continue;
    }
    Entry& top = warp.stack.back();
    if (top.pc == top.meets || top.mask == 0) {
      warp.stack.pop_back();
      continue;
    }
    const Instruction* const code = warp.frames.back().function->code.data();
    const std::size_t depth = warp.stack.size();
    // until the stack changes
    do {
      const Instruction& i = code[top.pc++];
      warp.mask = top.mask;
      if (i.guard != none) {
        const u32 holds = *at<u32>(warp, i.guard);
        warp.mask &= i.negated ? ~holds : holds;
        if (warp.mask == 0) continue;
      }
      warp.now = &i;
      carried_out += static_cast<u64>(__builtin_popcount(warp.mask));
      i.run(warp, i);
      if (warp.waits) return;
      if (warp.stack.size() != depth || i.run == handlers::leave || i.run == handlers::exit || i.run == handlers::call)
        break;
    } while (top.pc != top.meets);
  }
}

void start_warp(Warp& warp, Block& block, int number, u64 threads) {
  const Launch& launch = *block.launch;
  warp.block = &block;
  warp.number = number;
  warp.waits = false;
  warp.met = warp.exchanged = 0;
  warp.carry = 0;
  warp.stack.clear(), warp.frames.clear();
  warp.local_top = 16;
  auto* const special = reinterpret_cast<u32*>(warp.special);
  warp.live = 0;
  for (u32 lane = 0; lane < lanes; ++lane) {
    const u64 thread = static_cast<u64>(number) * lanes + lane;
    if (thread < threads) warp.live |= 1u << lane;
    const auto set = [&](Special one, u64 value) { special[one * lanes + lane] = static_cast<u32>(value); };
    const Grid& size = launch.block;
    set(tid_x, thread % size.x), set(tid_y, thread / size.x % size.y), set(tid_z, thread / (u64{size.x} * size.y));
    set(ntid_x, size.x), set(ntid_y, size.y), set(ntid_z, size.z);
    set(ctaid_x, block.index.x), set(ctaid_y, block.index.y), set(ctaid_z, block.index.z);
    set(nctaid_x, launch.grid.x), set(nctaid_y, launch.grid.y), set(nctaid_z, launch.grid.z);
    set(laneid, lane), set(warpid, static_cast<u64>(number));
    const u64 eq = u64{1} << lane;
    set(lanemask_eq, eq), set(lanemask_lt, eq - 1), set(lanemask_le, 2 * eq - 1);
    set(lanemask_gt, ~(2 * eq - 1)), set(lanemask_ge, ~(eq - 1));
    set(dynamic_smem, launch.dynamic_shared), set(smid, 0), set(clock_low, 0);
  }
  enter(warp, *launch.function, nullptr, warp.arena, warp.live);
}

/// bar.red: what all threads of the block said, for each of them.
void join(std::vector<Warp>& warps) {
  u32 said_yes = 0, threads = 0;
  for (const auto& warp : warps)
    if (warp.waits)
      said_yes += static_cast<u32>(__builtin_popcount(warp.says)),
          threads += static_cast<u32>(__builtin_popcount(warp.live));
  for (auto& warp : warps) {
    if (!warp.waits || warp.now->kind == 0) continue;
    const u32 to = warp.now->o[1], kind = warp.now->kind;
    if (kind == 3) {
      each_lane(warp.live, [&](int lane) { at<u32>(warp, to)[lane] = said_yes; });
    } else {
      const bool holds = kind == 1 ? said_yes == threads : said_yes != 0;
      u32& bits = *at<u32>(warp, to);
      bits = (bits & ~warp.live) | (holds ? warp.live : 0);
    }
  }
}

void run_block(std::vector<Warp>& warps, Block& block) {
  const u64 threads = block.launch->block.size();
  shared().start(block);
  int number = 0;
  for (auto& warp : warps) start_warp(warp, block, number++, threads);
  for (;;) {
    bool waits = false;
    for (auto& warp : warps)
      if (!warp.frames.empty()) go_on(warp), waits = waits || warp.waits;
    if (!waits) return;
    const Warp* some = nullptr;
    for (auto& warp : warps) some = warp.waits ? &warp : some;
    for (auto& warp : warps)
      if (!warp.waits)
        finding(*some, *some->now, __builtin_ctz(some->live),
                "warp " + std::to_string(warp.number) + " has ended, and others wait for it at a barrier");
    for (auto& warp : warps)
      if (warp.waits && warp.barrier != some->barrier)
        finding(warp, *warp.now, 0, "warps of a block wait at different barriers");
    join(warps);
    for (auto& warp : warps) warp.waits = false;
    shared().meet();
  }
}

}  // namespace

void run(const Launch& launch) {
  static std::vector<Warp> all;
  static const bool says = std::getenv("CUDA_STANDIN_SAY") != nullptr;
  try {
    decode(*launch.function);
  } catch (const std::exception& error) {
    unknown(error.what());
  }
  const u64 before = carried_out;
  const auto begun = std::chrono::steady_clock::now();
  if (says)
    std::fprintf(stderr, "emulated GPU: %s, %llu blocks of %llu\n", demangled(launch.function->name).c_str(),
                 static_cast<unsigned long long>(launch.grid.size()),
                 static_cast<unsigned long long>(launch.block.size()));
  const u64 count = (launch.block.size() + lanes - 1) / lanes;
  all.reserve(1024);
  while (all.size() < count) {
    auto& warp = all.emplace_back();
    warp.arena = reserve(arena_bytes), warp.local = reserve(local_bytes * lanes);
    warp.special = reserve(specials * lanes * 4);
    warp.bank[bank_constants] = constant_values(), warp.bank[bank_special] = warp.special;
  }
  std::vector<Warp> warps(all.begin(), all.begin() + static_cast<long>(count));
  Block block{&launch, {}, 0, &warps};
  for (u32 z = 0; z < launch.grid.z; ++z)
    for (u32 y = 0; y < launch.grid.y; ++y)
      for (u32 x = 0; x < launch.grid.x; ++x) {
        block.index = {x, y, z};
        run_block(warps, block);
      }
  if (says)
    std::fprintf(stderr, "  %.3g instructions of lanes in %.3g s\n", static_cast<double>(carried_out - before),
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}

// -- control ---------------------------------------------------------------------------------------------------------

void handlers::branch(Warp& warp, const Instruction& i) {
  Entry& top = warp.stack.back();
  const u32 taken = warp.mask, other = top.mask & ~taken;
  if (other == 0) {
    top.pc = i.target;
    return;
  }
  const u32 behind = top.pc, meets = i.meets;
  if (meets == none || meets == top.meets)
    warp.stack.pop_back();  // the entry below, or the frame's end, is where they meet
  else
    top.pc = meets;
  if (behind != meets) warp.stack.push_back({behind, meets, other});
  if (i.target != meets) warp.stack.push_back({i.target, meets, taken});
}

void handlers::call(Warp& warp, const Instruction& i) {
  const Call& call = *static_cast<const Call*>(i.more);
  const Frame& caller = warp.frames.back();
  char* const from = caller.registers;
  char* const to = from + caller.function->frame_bytes;
  for (const auto& copy : call.arguments)
    std::memcpy(to + (copy.callee & 0x3fffffffu), from + (copy.caller & 0x3fffffffu), copy.words * 256);
  enter(warp, *call.function, &call, to, warp.mask);
}

/// Lanes leave the function. Nobody waits for them within it.
void handlers::leave(Warp& warp, const Instruction&) {
  if (warp.frames.size() == 1) warp.live &= ~warp.mask;
  for (u32 i = warp.frames.back().bottom; i < warp.stack.size(); ++i) warp.stack[i].mask &= ~warp.mask;
}

void handlers::exit(Warp& warp, const Instruction&) {
  warp.live &= ~warp.mask;
  for (auto& entry : warp.stack) entry.mask &= ~warp.mask;
}

void handlers::trap(Warp& warp, const Instruction& i) {
  finding(warp, i, __builtin_ctz(warp.mask), "a kernel traps (an assertion, or abort)");
}

void handlers::nothing(Warp&, const Instruction&) {}

void handlers::barrier(Warp& warp, const Instruction& i) {
  if (warp.mask != warp.live)
    finding(warp, i, __builtin_ctz(warp.live & ~warp.mask),
            "a barrier in a divergent branch: this thread does not come to it with the others of its warp");
  warp.waits = true;
  warp.barrier = *at<u32>(warp, i.o[0]);
  warp.says = i.kind == 0 ? 0 : (*at<u32>(warp, i.o[2]) ^ (i.is_signed ? all_lanes : 0)) & warp.mask;
}

}  // namespace emulated
