#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "module.hpp"

namespace emulated {
namespace {

void* reserve(u64 wanted, u64 bytes, int access) {
  void* const got = mmap(reinterpret_cast<void*>(wanted), bytes, access,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted != 0 ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (got == MAP_FAILED) unknown("no room for " + std::to_string(bytes) + " bytes of addresses");
  return got;
}

struct sigaction before;

void host_touches(int signal, siginfo_t* info, void*) {
  const u64 address = reinterpret_cast<u64>(info->si_addr);
  if (address >> space_shift == space_device) {
    const std::string text =
        "error: emulated GPU: the host reads or writes memory of the device, " + memory().describe(address) + "\n";
    if (write(2, text.c_str(), text.size()) < 0) _exit(71);
    _exit(70);
  }
  sigaction(signal, &before, nullptr);
}

u64 up(u64 value, u64 to) { return (value + to - 1) / to * to; }

}  // namespace

Memory::Memory() : next_device(base_of(space_device) + 4096), next_pinned(base_of(space_pinned) + 4096) {
  reserve(base_of(space_device), region_bytes, PROT_NONE);
  reserve(base_of(space_pinned), region_bytes, PROT_READ | PROT_WRITE);
  const auto beside = [](Space space) {
    return reinterpret_cast<u64>(reserve(0, region_bytes, PROT_READ | PROT_WRITE)) - base_of(space);
  };
  to_data = beside(space_device);
  to_shadow = beside(space_device);
  pinned_to_shadow = beside(space_pinned);
  struct sigaction action = {};
  action.sa_sigaction = host_touches;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

u64 Memory::allocate(Space space, u64 bytes, std::string label) {
  u64& next = space == space_device ? next_device : next_pinned;
  const u64 address = up(next, 256);
  next = address + bytes + 256;  // what goes beyond its end meets nothing
  if (!in_region(address, bytes)) unknown("the stand-in's memory is used up");
  allocations[address] = {address, bytes, std::move(label), false};
  // the host may write pinned memory at any time
  std::memset(shadow(address), space == space_device ? is_allocated : is_allocated | is_written, bytes);
  if (space == space_device) std::memset(data(address), 0xa5, bytes);
  return address;
}

bool Memory::free(u64 address) {
  const auto found = allocations.find(address);
  if (found == allocations.end() || found->second.freed) return false;
  auto& one = found->second;
  one.freed = true;
  std::memset(shadow(address), 0, one.bytes);
  const u64 page = 4096, first = up(address, page), end = (address + one.bytes) / page * page;
  if (end > first) {
    madvise(data(first), end - first, MADV_DONTNEED);
    madvise(shadow(first), end - first, MADV_DONTNEED);
  }
  return true;
}

const Allocation* Memory::find(u64 address) const {
  auto found = allocations.upper_bound(address);
  return found == allocations.begin() ? nullptr : &std::prev(found)->second;
}

std::string Memory::describe(u64 address) const {
  char text[64];
  std::snprintf(text, sizeof text, "address 0x%llx", static_cast<unsigned long long>(address));
  std::string all = text;
  const Allocation* one = holds(address) ? find(address) : nullptr;
  if (one == nullptr) return all;
  all += ", byte " + std::to_string(address - one->address) + " of " + (one->freed ? "freed " : "") + one->label +
         " with " + std::to_string(one->bytes) + " bytes";
  return all;
}

void Memory::mark_written(u64 address, u64 bytes) {
  if (address >> space_shift == space_device) std::memset(shadow(address), is_allocated | is_written, bytes);
}

Memory& memory() {
  static Memory* const one = new Memory;  // programs free memory after main
  return *one;
}

const Checks& checks() {
  static const Checks one = [] {
    Checks asked;
    if (const char* text = std::getenv("CUDA_STANDIN_CHECKS")) {
      asked.memory = std::strstr(text, "memory") != nullptr;
      asked.races = std::strstr(text, "races") != nullptr;
    }
    asked.go_on = std::getenv("CUDA_STANDIN_GO_ON") != nullptr;
    return asked;
  }();
  return one;
}

namespace {

int findings = 0;

void say(const std::string& text) {
  std::fprintf(stderr, "error: emulated GPU: %s\n", text.c_str());
  if (!checks().go_on) {
    std::fflush(nullptr);
    _exit(70);
  }
  if (findings++ == 0)
    std::atexit([] {
      std::fprintf(stderr, "error: emulated GPU: %d findings\n", findings);
      std::fflush(nullptr);
      _exit(70);
    });
}

std::string in(const Grid& g) {
  std::string text = "(";
  text += std::to_string(g.x) + ", " + std::to_string(g.y) + ", " + std::to_string(g.z) + ")";
  return text;
}

}  // namespace

void finding(const Warp& warp, const Instruction& instruction, int lane, const std::string& what, u64 address) {
  const Function& function = *warp.frames.back().function;
  const Function& kernel = *warp.block->launch->function;
  static std::set<std::pair<const Instruction*, std::string>> said;
  if (!said.insert({&instruction, what}).second) {
    ++findings;
    return;
  }
  const auto special = reinterpret_cast<const u32*>(warp.special);
  const auto value = [&](Special one) { return special[one * lanes + static_cast<u32>(lane)]; };
  std::string text = what + "\n  kernel: " + demangled(kernel.name);
  if (&kernel != &function) text += "\n  in: " + demangled(function.name);
  text += "\n  line " + std::to_string(instruction.line) +
          " of the PTX: " + line_of(*function.module, instruction.line) + "\n  block " +
          in({value(ctaid_x), value(ctaid_y), value(ctaid_z)}) + ", thread " +
          in({value(tid_x), value(tid_y), value(tid_z)}) + ", lane " + std::to_string(lane) + " of warp " +
          std::to_string(warp.number);
  if (address != 0) text += "\n  " + memory().describe(address);
  say(text);
}

void finding(const std::string& what) { say(what); }

void unknown(const std::string& what) {
  std::fprintf(stderr, "error: emulated GPU: %s\n", what.c_str());
  std::fflush(nullptr);
  _exit(71);
}

}  // namespace emulated
