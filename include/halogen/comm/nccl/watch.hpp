// Who looks after operations that the host does not wait for: a thread polls NCCL for asynchronous errors and the
// stream for operations that do not end.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/start.hpp"
#include "halogen/comm/stream.hpp"
#include "halogen/comm/terminate.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen::detail {

/// What the watch looks after: a communicator.
class NcclWatched {
 public:
  /// The sentence of its fault, or nothing. Called by the watch's thread.
  virtual std::string fault() = 0;
  /// Begins to end what is under way, so that neither host nor stream waits for it any longer; returns at once.
  virtual void abort() = 0;

 protected:
  ~NcclWatched() = default;
};

/// How long an operation may take, and which variable says so.
struct NcclTimeout {
  std::chrono::milliseconds time;
  const char* variable;
};

/// HALOGEN_NCCL_TIMEOUT, else HALOGEN_TIMEOUT, in seconds; ten minutes unless set.
inline NcclTimeout nccl_timeout() {
  const Setting& own = settings::nccl_timeout;
  if (!is_set(own.name) && patience.timeout.count() > 0) return {patience.timeout, settings::timeout.name};
  return {seconds_of(own), own.name};
}

/// The first fault aborts all communicators of the process, since what waits may be behind another one. The next
/// operation of the main thread throws it as Error; a main thread that does not come to one within the grace is beyond
/// help, and all ranks end.
class NcclWatch {
 public:
  static NcclWatch& get() {
    static NcclWatch& watch = *new NcclWatch;  // communicators in statics may outlive every static
    return watch;
  }

  void add(NcclWatched& one) {
    const std::lock_guard lock(mutex_);
    watched_.push_back(&one);
    if (!thread_.joinable()) {
      ending_ = false;
      thread_ = std::thread([this] { run(); });
    }
  }
  void remove(NcclWatched& one) {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      std::erase(watched_, &one);
      last = watched_.empty();
    }
    if (last) stop();
  }

  bool failed() const { return failed_; }
  /// Throws Error with the first fault, if there is one.
  void check() {
    if (!failed_) return;
    heard_ = true;
    const std::lock_guard lock(mutex_);
    throw Error(sentence_);
  }

  const NcclTimeout& timeout() const { return timeout_; }

 private:
  static constexpr std::chrono::seconds grace{10};

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    thread_ = {};
  }

  static std::string fault_of(NcclWatched& one) {
    try {
      return one.fault();
    } catch (const std::exception& error) {  // a kernel's fault shows at whatever asks the device next
      return error.what();
    }
  }

  void run() {
    using std::chrono::steady_clock;
    prepare_watching_thread();
    const auto between = std::min(std::chrono::milliseconds(100), timeout_.time / 10);
    steady_clock::time_point deadline;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, between, [this] { return ending_; })) {
      if (!failed_) {
        for (NcclWatched* one : watched_)
          if (sentence_.empty()) sentence_ = fault_of(*one);
        if (sentence_.empty()) continue;
        failed_ = true;
        deadline = steady_clock::now() + grace;
      }
      for (NcclWatched* one : watched_) one->abort();
      if (heard_ || steady_clock::now() < deadline) continue;
      end_all_ranks(sentence_);
    }
  }

  NcclTimeout timeout_ = nccl_timeout();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<NcclWatched*> watched_;
  std::thread thread_;
  bool ending_ = false;
  std::string sentence_;
  std::atomic<bool> failed_ = false, heard_ = false;
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
