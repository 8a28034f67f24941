// NCCL's functions, found when the first communicator is made: a program that never asks for NCCL runs without it.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "halogen/comm/error.hpp"

namespace halogen::detail {

/// ncclCommSplit came with it.
inline constexpr int oldest_nccl = NCCL_VERSION(2, 18, 1);
/// From here on several ranks may share a GPU.
inline constexpr int nccl_of_shared_gpus = NCCL_VERSION(2, 30, 0);

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
  Function find(const char* name) const {
    if (void* symbol = dlsym(library_, name)) return reinterpret_cast<Function>(symbol);
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

 private:
  static void* open() {
    if (const char* chosen = std::getenv("HALOGEN_NCCL_LIBRARY")) return open(chosen);
#ifdef HALOGEN_NCCL_PATH
    if (void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return library;
    return open(HALOGEN_NCCL_PATH);
#else
    return open("libnccl.so.2");
#endif
  }
  static void* open(const char* name) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    throw Error(std::string("NCCL cannot be loaded: ") + dlerror() +
                ": install it, name it with HALOGEN_NCCL_LIBRARY=/path/to/libnccl.so.2, or use HALOGEN_TRANSPORT=mpi");
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
