// NCCL's functions, found when the first communicator is made: a program that never asks for NCCL runs without it.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <dlfcn.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "halogen/comm/error.hpp"
#include "halogen/core/settings.hpp"

namespace halogen::detail {

/// ncclCommSplit came with it.
inline constexpr int oldest_nccl = NCCL_VERSION(2, 18, 1);
/// From here on several ranks may share a GPU.
inline constexpr int nccl_of_shared_gpus = NCCL_VERSION(2, 30, 0);
/// From here on hosts put messages into windows of their peers.
inline constexpr int nccl_of_windows = NCCL_VERSION(2, 29, 0);

/// What hosts call to put messages into windows, as NCCL 2.29 declares it: the toolkit's own nccl.h may be older. The
/// device's side of windows is not used, since its layout changes from one version to the next.
namespace nccl_windows {

using Window = void*;
/// ncclWaitSignalDesc_t: `count` signals of `peer`.
struct Signals {
  int count;
  int peer;
  int index = 0, context = 0;  // NCCL 2.30 knows no others
};
inline constexpr int symmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC

using MemAlloc = ncclResult_t (*)(void**, std::size_t);
using MemFree = ncclResult_t (*)(void*);
using Register = ncclResult_t (*)(ncclComm_t, void*, std::size_t, Window*, int flags);
using Deregister = ncclResult_t (*)(ncclComm_t, Window);
using PutSignal = ncclResult_t (*)(const void*, std::size_t count, ncclDataType_t, int peer, Window, std::size_t offset,
                                   int index, int context, unsigned flags, ncclComm_t, cudaStream_t);
using Signal = ncclResult_t (*)(int peer, int index, int context, unsigned flags, ncclComm_t, cudaStream_t);
using WaitSignal = ncclResult_t (*)(int count, Signals*, ncclComm_t, cudaStream_t);

}  // namespace nccl_windows

/// 22809 -> "2.28.9"
inline std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// The library and the functions we call. Looked for under HALOGEN_NCCL_LIBRARY if set, else by the loader as
/// libnccl.so.2, else where CMake found it.
class NcclLibrary {
 public:
  /// Throws Error, each time again, where there is none or an older one than oldest_nccl.
  static const NcclLibrary& get() {
    static const NcclLibrary library;
    return library;
  }

  int version() const { return version_; }

 private:
  void* library_ = open();

  template <class Function>
  Function find_if_there(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }
  template <class Function>
  Function find(const char* name) const {
    if (const Function function = find_if_there<Function>(name)) return function;
    throw Error(std::string("the NCCL library has no ") + name + ": install NCCL " + nccl_version_text(oldest_nccl) +
                " or newer");
  }
  int version_ = check_version();

 public:
#define HALOGEN_NCCL(member, function) decltype(&::function) member = find<decltype(&::function)>(#function)
  HALOGEN_NCCL(error_string, ncclGetErrorString);
  HALOGEN_NCCL(get_unique_id, ncclGetUniqueId);
  HALOGEN_NCCL(comm_init_rank, ncclCommInitRank);
  HALOGEN_NCCL(comm_split, ncclCommSplit);
  HALOGEN_NCCL(comm_count, ncclCommCount);
  HALOGEN_NCCL(comm_user_rank, ncclCommUserRank);
  HALOGEN_NCCL(comm_destroy, ncclCommDestroy);
  HALOGEN_NCCL(comm_abort, ncclCommAbort);
  HALOGEN_NCCL(comm_get_async_error, ncclCommGetAsyncError);
  HALOGEN_NCCL(group_start, ncclGroupStart);
  HALOGEN_NCCL(group_end, ncclGroupEnd);
  HALOGEN_NCCL(send, ncclSend);
  HALOGEN_NCCL(recv, ncclRecv);
  HALOGEN_NCCL(all_reduce, ncclAllReduce);
  HALOGEN_NCCL(reduce, ncclReduce);
  HALOGEN_NCCL(reduce_scatter, ncclReduceScatter);
  HALOGEN_NCCL(all_gather, ncclAllGather);
  HALOGEN_NCCL(broadcast, ncclBroadcast);
#undef HALOGEN_NCCL
  // Null in versions before nccl_of_windows.
  nccl_windows::MemAlloc mem_alloc = find_if_there<nccl_windows::MemAlloc>("ncclMemAlloc");
  nccl_windows::MemFree mem_free = find_if_there<nccl_windows::MemFree>("ncclMemFree");
  nccl_windows::Register window_register = find_if_there<nccl_windows::Register>("ncclCommWindowRegister");
  nccl_windows::Deregister window_deregister = find_if_there<nccl_windows::Deregister>("ncclCommWindowDeregister");
  nccl_windows::PutSignal put_signal = find_if_there<nccl_windows::PutSignal>("ncclPutSignal");
  nccl_windows::Signal signal = find_if_there<nccl_windows::Signal>("ncclSignal");
  nccl_windows::WaitSignal wait_signal = find_if_there<nccl_windows::WaitSignal>("ncclWaitSignal");

  bool has_windows() const {
    return version_ >= nccl_of_windows && mem_alloc && mem_free && window_register && window_deregister && put_signal &&
           signal && wait_signal;
  }

 private:
  static void* open() {
    if (const std::string chosen = variable_text(settings::nccl_library.name); !chosen.empty())
      return open(chosen.c_str());
#ifdef HALOGEN_NCCL_PATH
    if (void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return library;
    return open(HALOGEN_NCCL_PATH);
#else
    return open("libnccl.so.2");
#endif
  }
  static void* open(const char* name) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    throw Error(std::string("NCCL cannot be loaded (") + dlerror() +
                "): install it, name it with HALOGEN_NCCL_LIBRARY=/path/to/libnccl.so.2, or use HALOGEN_TRANSPORT=mpi");
  }
  int check_version() const {
    int version = 0;
    find<decltype(&::ncclGetVersion)>("ncclGetVersion")(&version);
    if (version < oldest_nccl)
      throw Error("this is NCCL " + nccl_version_text(version) + ", but " + nccl_version_text(oldest_nccl) +
                  " or newer is needed: name another with HALOGEN_NCCL_LIBRARY, or use HALOGEN_TRANSPORT=mpi");
    return version;
  }
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
