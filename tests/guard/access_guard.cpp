// Device memory on a machine without a device: a library to preload, and a Kokkos tool at once. What Halogen allocates
// in memory_space lies on pages of its own that can be read and written only while a kernel or a deep_copy runs;
// anything else that touches them ends the process with one sentence and the calls that led there. So each program that
// a plain CPU build has made shows, without being compiled again, whether it would dereference a device pointer on the
// host:
//
//   LD_PRELOAD=libaccess_guard.so KOKKOS_TOOLS_LIBS=libaccess_guard.so ./program
//
// MPI may touch it: in a CPU build fields are what the transport reads. Unseen: host reads that lack a fence.
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <impl/Kokkos_Profiling_C_Interface.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t page = 4096, header = 128;  // Kokkos writes a header of its own before the data

/// An allocation of Kokkos: a page that ends with its header, then whole pages of data.
struct Block {
  std::size_t bytes = 0;  ///< of data, in whole pages
  std::size_t size = 0;   ///< as asked for
  std::string label;      ///< empty: not guarded
};

std::map<char*, Block>& blocks() {  // by the address of the data; never destroyed, since views may outlive main
  static auto* all = new std::map<char*, Block>;
  return *all;
}
std::recursive_mutex& mutex() {
  static auto* one = new std::recursive_mutex;
  return *one;
}
int running = 0;            // kernels and copies
std::vector<char*> opened;  // blocks, for them

/// All arrays of Halogen but those that the transport reads and writes, which lie elsewhere on a device.
bool is_device_memory(std::string_view label) {
  if (!label.starts_with("halogen::")) return false;
  for (const std::string_view of_transport : {"send", "receive", "whole", "piece", "received", "staging", "sum",
                                              "summand", "loss", "moments", "all_moments", "affine_sums", "partial"})
    if (label.substr(9) == of_transport) return false;
  return true;
}

void protect(char* data, const Block& block, bool open) {
  if (!block.label.empty()) mprotect(data, block.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void begin() {
  const std::scoped_lock lock(mutex());
  ++running;
}
void end() {
  const std::scoped_lock lock(mutex());
  if (--running > 0) return;
  for (char* data : opened)
    if (const auto block = blocks().find(data); block != blocks().end()) protect(data, block->second, false);
  opened.clear();
}

/// Whether one of the calls that led here is MPI's.
bool within_mpi(void* const* calls, int count) {
  Dl_info mpi{}, call{};
  void* const init = dlsym(RTLD_DEFAULT, "MPI_Init");
  if (init == nullptr || dladdr(init, &mpi) == 0) return false;
  return std::any_of(calls, calls + count,
                     [&](void* at) { return dladdr(at, &call) != 0 && call.dli_fbase == mpi.dli_fbase; });
}

/// A block is opened when it is first touched, and closed when the kernel has run: most are not touched by most
/// kernels.
void on_fault(int signal, siginfo_t* info, void*) {
  char* const at = static_cast<char*>(info->si_addr);
  const std::scoped_lock lock(mutex());
  auto found = blocks().upper_bound(at);
  if (found == blocks().begin() || (--found, at >= found->first + found->second.bytes) || found->second.label.empty()) {
    std::signal(signal, SIG_DFL);  // some other fault: it comes again
    return;
  }
  auto& [data, block] = *found;
  void* calls[64];
  const int count = running > 0 ? 0 : backtrace(calls, 64);
  if (running > 0 || within_mpi(calls, count)) {
    protect(data, block, true);
    opened.push_back(data);
    return;
  }
  char text[512];
  const int length = std::snprintf(text, sizeof text,
                                   "access guard: the host touches byte %zu of %zu of '%s', device memory, outside a "
                                   "kernel: copy it to the host first (to_host, deep_copy)\n",
                                   static_cast<std::size_t>(at - data), block.size, block.label.c_str());
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) > 0)
    backtrace_symbols_fd(calls, count, STDERR_FILENO);
  _exit(EXIT_FAILURE);
}

}  // namespace

/// The one form of new that Kokkos' HostSpace calls.
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (static_cast<std::size_t>(alignment) > header)
    return std::aligned_alloc(static_cast<std::size_t>(alignment), size);
  const std::size_t bytes = std::max<std::size_t>((size + page - 1) / page * page, page);
  void* const all = mmap(nullptr, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* const data = static_cast<char*>(all) + page;
  const std::scoped_lock lock(mutex());
  blocks()[data] = {bytes, size, ""};
  return data - header;
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  if (memory == nullptr) return;
  const std::scoped_lock lock(mutex());
  const auto block = blocks().find(static_cast<char*>(memory) + header);
  if (block == blocks().end()) return std::free(memory);
  munmap(block->first - page, page + block->second.bytes);
  blocks().erase(block);
}

extern "C" {

void kokkosp_init_library(const int, const std::uint64_t, const std::uint32_t, void*) {
  void* calls[1];
  backtrace(calls, 1);  // the first call allocates, which a handler must not
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

void kokkosp_allocate_data(Kokkos_Profiling_SpaceHandle, const char* label, const void* memory, std::uint64_t size) {
  const std::scoped_lock lock(mutex());
  const auto block = blocks().find(static_cast<char*>(const_cast<void*>(memory)) + header);
  if (block == blocks().end() || !is_device_memory(label)) return;
  block->second.label = label;
  block->second.size = size;
  protect(block->first, block->second, false);
}

void kokkosp_begin_parallel_for(const char*, std::uint32_t, std::uint64_t*) { begin(); }
void kokkosp_end_parallel_for(std::uint64_t) { end(); }
void kokkosp_begin_parallel_reduce(const char*, std::uint32_t, std::uint64_t*) { begin(); }
void kokkosp_end_parallel_reduce(std::uint64_t) { end(); }
void kokkosp_begin_parallel_scan(const char*, std::uint32_t, std::uint64_t*) { begin(); }
void kokkosp_end_parallel_scan(std::uint64_t) { end(); }
void kokkosp_begin_deep_copy(Kokkos_Profiling_SpaceHandle, const char*, const void*, Kokkos_Profiling_SpaceHandle,
                             const char*, const void*, std::uint64_t) {
  begin();
}
void kokkosp_end_deep_copy() { end(); }

}  // extern "C"
