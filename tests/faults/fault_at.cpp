// Preloaded into a program that saves checkpoints: at the n-th call that changes a checkpoint's folder it kills the
// process, lets the call fail, writes less than it was asked for, or sends SIGTERM to its own process. Without
// HALOGEN_FAULT it counts, and says how many calls there were when the process ends.
//   HALOGEN_FAULT="kill 7" | "fail 7" | "short 7" | "term 7"    HALOGEN_FAULT_FOLDER: part of the path of what counts
//   HALOGEN_FAULT="slow 100": every call takes 100 ms longer
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> calls{0};

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool counts(const char* path) {
  const char* const folder = std::getenv("HALOGEN_FAULT_FOLDER");
  return folder != nullptr && path != nullptr && std::strstr(path, folder) != nullptr;
}
bool counts(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return counts(path);
}

enum class Fault { none, fail, shorten };

/// What happens to this call; it may be the last thing that this process does.
Fault fault() {
  const int call = ++calls;
  const char* const asked = std::getenv("HALOGEN_FAULT");
  char what[16] = "";
  int at = 0;
  if (asked == nullptr || std::sscanf(asked, "%15s %d", what, &at) != 2) return Fault::none;
  if (std::strcmp(what, "slow") == 0) ::usleep(static_cast<useconds_t>(at) * 1000);
  if (at != call || std::strcmp(what, "slow") == 0) return Fault::none;
  if (std::strcmp(what, "kill") == 0) ::kill(::getpid(), SIGKILL);
  if (std::strcmp(what, "term") == 0) {
    ::kill(::getpid(), SIGTERM);
    return Fault::none;
  }
  errno = ENOSPC;
  return std::strcmp(what, "short") == 0 ? Fault::shorten : Fault::fail;
}

struct Count {
  ~Count() {
    if (std::getenv("HALOGEN_FAULT_FOLDER") != nullptr && std::getenv("HALOGEN_FAULT") == nullptr)
      std::fprintf(stderr, "fault_at: %d calls\n", calls.load());
  }
} count;

template <class F, class... A>
auto unless_failed(bool is_counted, F call, A... arguments) -> decltype(call(arguments...)) {
  return is_counted && fault() == Fault::fail ? -1 : call(arguments...);
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t at) {
  static const auto call = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  switch (counts(descriptor) ? fault() : Fault::none) {
    case Fault::fail:
      return -1;
    case Fault::shorten:
      return call(descriptor, data, bytes > 1 ? bytes / 2 : bytes, at);
    default:
      return call(descriptor, data, bytes, at);
  }
}
ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off_t at) {
  return pwrite(descriptor, data, bytes, at);
}

int fsync(int descriptor) {
  static const auto call = next<int (*)(int)>("fsync");
  return unless_failed(counts(descriptor), call, descriptor);
}

int rename(const char* from, const char* to) {
  static const auto call = next<int (*)(const char*, const char*)>("rename");
  return unless_failed(counts(from), call, from, to);
}

int mkdir(const char* path, mode_t mode) {
  static const auto call = next<int (*)(const char*, mode_t)>("mkdir");
  return unless_failed(counts(path), call, path, mode);
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto call = next<int (*)(int, const char*, int)>("unlinkat");
  return unless_failed(counts(folder) || counts(path), call, folder, path, flags);
}

int open(const char* path, int flags, ...) {
  static const auto call = next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) != 0 && counts(path) && fault() == Fault::fail) return -1;
  return call(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open(path, flags, mode);
}

}  // extern "C"
