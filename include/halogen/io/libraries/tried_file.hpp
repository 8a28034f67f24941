// Files that a library reads, tried by a child process first: netCDF and HDF5 crash on a few damaged files, and do not
// come back from others (docs/data.md).
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

#include "halogen/io/system_words.hpp"

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "halogen/comm/start.hpp"

namespace halogen::detail {

/// What tells whether a file is the one that it was.
struct FileState {
  struct stat now {};
  /// std::runtime_error: a file that is not there, or that the system refuses to look at.
  explicit FileState(const std::filesystem::path& path) {
    if (::stat(path.c_str(), &now) != 0) throw std::runtime_error(words_of_system(errno, path));
  }
  bool operator==(const FileState& other) const {
    return now.st_dev == other.now.st_dev && now.st_ino == other.now.st_ino && now.st_size == other.now.st_size &&
           now.st_mtim.tv_sec == other.now.st_mtim.tv_sec && now.st_mtim.tv_nsec == other.now.st_mtim.tv_nsec;
  }
};

/// A process of its own for a function, ended with it.
class Child {
 public:
  struct Limits {
    int cpu_seconds = 5;                    ///< of work; waiting for a disk is none
    int seconds = 120;                      ///< after which the trial is given up, without a verdict
    std::uint64_t more_bytes = 1ULL << 28;  ///< of memory that the function may take, beside the file's size
  };
  struct Fate {
    std::string refusal;  ///< what f threw, a std::exception
    std::string end;      ///< what ended the child before f came to its end
  };
  /// Nothing where f returned, or where no child could be had.
  template <class F>
  static Fate fate_of(F f, const Limits& limits) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
    const std::uint64_t bytes = data_bytes() + limits.more_bytes;
    const pid_t parent = ::getpid(), child = ::fork();
    if (child == 0) {
      prepare(parent, limits, bytes);
      std::string words(1, done);
      try {
        f();
      } catch (const std::exception& error) {
        words += error.what();
      }
      words.resize(std::min<std::size_t>(words.size(), PIPE_BUF));
      ::_exit(::write(ends[1], words.data(), words.size()) > 0 ? 0 : 1);
    }
    ::close(ends[1]);
    std::string words(PIPE_BUF, '\0');
    const bool is_verdict = child > 0 && came_to_an_end(ends[0], limits);
    words.resize(
        is_verdict ? static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], words.data(), words.size()))) : 0);
    ::close(ends[0]);
    if (child < 0) return {};
    if (!is_verdict) ::kill(child, SIGKILL);
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    if (!is_verdict) return {};
    if (!words.empty()) return {words.substr(1), {}};
    if (ended != child || !WIFSIGNALED(status)) return {{}, "crashes"};  // others may have waited for the child
    if (WTERMSIG(status) == SIGXCPU) return {{}, "does not come back"};
    return {{}, "crashes (signal " + std::to_string(WTERMSIG(status)) + ")"};
  }

  /// By the function that runs in the child, before it reads and decodes so many bytes.
  static void expect_bytes(const Limits& limits, double bytes) {
    const double seconds = std::min(60.0, bytes / 2e7);
    limit(RLIMIT_CPU, static_cast<rlim_t>(limits.cpu_seconds + seconds), RLIM_INFINITY);
    limit(RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY);
  }

 private:
  static constexpr char done = 'd';

  /// What this process has of the memory that RLIMIT_DATA counts; 0 where that is not known, or has no bounds, as that
  /// of a sanitizer.
  static std::uint64_t data_bytes() {
    std::uint64_t pages = 0;
#if !defined(__SANITIZE_ADDRESS__) && defined(__linux__)
    std::ifstream memory("/proc/self/statm");
    for (int word = 0; word < 6; ++word) memory >> pages;  // the sixth: data and stack
    if (!memory) pages = 0;
#endif
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  /// Nothing of the parent's reaches the user from here: no messages, no core, no handlers of its signals.
  static void prepare(pid_t parent, const Limits& limits, std::uint64_t bytes) {
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
#else
    static_cast<void>(parent);
#endif
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGINT})
      std::signal(signal, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    limit(RLIMIT_CORE, 0, 0);
    const auto work = static_cast<rlim_t>(limits.cpu_seconds);
    limit(RLIMIT_CPU, work, RLIM_INFINITY);
    if (bytes > limits.more_bytes) limit(RLIMIT_DATA, bytes, RLIM_INFINITY);
  }
  static void limit(decltype(RLIMIT_CPU) which, rlim_t soft, rlim_t hard) {
    rlimit now{};
    ::getrlimit(which, &now);
    const rlimit wanted{std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
    ::setrlimit(which, &wanted);
  }
  static bool came_to_an_end(int end, const Limits& limits) {
    pollfd waited{end, POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&waited, 1, limits.seconds * 1000)) < 0 && errno == EINTR) {
    }
    return ready > 0;
  }
};

/// The variables of files that have been tried, and as what. Under hdf5_mutex.
class TriedFiles {
 public:
  static TriedFiles& all() {
    static TriedFiles files;
    return files;
  }
  /// Runs look(limits), which opens the file anew and reads what is asked of it later, in a child process, unless the
  /// file has been tried for that variable and is what it was. Before that release(): this process may not have the
  /// file open, since a child shares its place in it. std::runtime_error where the library would end this process.
  template <class Release, class Look>
  void require(const char* library, const std::filesystem::path& path, const std::string& name, Release release,
               Look look) {
    if (!tries) return;
    const FileState state(path);
    const Key key{library, path, name};
    if (const auto known = known_.find(key); known != known_.end() && known->second == state) return;
    release();
    Child::Limits of_file = limits;
    of_file.more_bytes += static_cast<std::uint64_t>(state.now.st_size);
    const Child::Fate fate = Child::fate_of([&] { look(of_file); }, of_file);
    if (!fate.refusal.empty()) throw std::runtime_error(fate.refusal);  // the library is not asked twice
    if (!fate.end.empty())
      throw std::runtime_error(
          std::string(library) + " " + fate.end +
          " when a child process tries to read it: the file is damaged; get it, or write it, anew");
    known_.insert_or_assign(key, state);
  }
  /// What another rank has tried.
  void add(const char* library, const std::filesystem::path& path, const std::string& name) {
    known_.insert_or_assign(Key{library, path, name}, FileState(path));
  }

  Child::Limits limits;
  bool tries = text_of(settings::try_files) != "0";

 private:
  using Key = std::tuple<std::string, std::filesystem::path, std::string>;
  TriedFiles() = default;
  std::map<Key, FileState> known_;
};

}  // namespace halogen::detail
