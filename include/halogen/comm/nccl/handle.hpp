// An NCCL communicator that ends itself, and the one place where operations are issued and NCCL's codes become errors.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "halogen/comm/nccl/library.hpp"
#include "halogen/comm/nccl/watch.hpp"
#include "halogen/comm/nccl/window_memory.hpp"
#include "halogen/comm/stream.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen::detail {

/// An operation as errors name it: shared, since it may be under way longer than whoever issued it lives.
struct NcclOperation {
  std::string what;
  std::vector<int> peers;  ///< empty: all ranks
};

/// Aborts a communicator on a thread of its own. ncclCommAbort waits for the device, and so for kernels of
/// communicators whose own abort comes later, and for graphs that hold its operations: whoever called it must go on
/// meanwhile.
class NcclAbort {
 public:
  void begin(const NcclLibrary& library, ncclComm_t comm) {
    ended_ = std::make_shared<std::atomic<bool>>(false);
    std::thread([&library, comm, ended = ended_] {
      prepare_watching_thread();
      library.comm_abort(comm);
      *ended = true;
    }).detach();
  }
  /// For a while: one that does not end is left to the end of the process.
  void wait() const {
    if (ended_) poll_for(std::chrono::seconds(10), [this] { return ended_->load(); });
  }

 private:
  std::shared_ptr<std::atomic<bool>> ended_;
};

/// Owns a communicator of two ranks or more. Operations are issued on stream() and complete in its order, puts on
/// side_stream().
class NcclHandle final : public NcclWatched {
  using Clock = std::chrono::steady_clock;

 public:
  NcclHandle(ncclComm_t comm, std::string label) : comm_(comm), label_(std::move(label)) {
    check(library_.comm_user_rank(comm_, &rank_), "ncclCommUserRank");
    check(library_.comm_count(comm_, &size_), "ncclCommCount");
    NcclWatch::get().add(*this);
  }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  /// In an orderly end all ranks destroy it together, as NCCL asks; behind an exception they might never. A handle that
  /// outlives the stream, in a static, leaves it to the end of the process.
  ~NcclHandle() {
    NcclWatch::get().remove(*this);
    if (stream_ended()) return;
    if (comm_ == nullptr) {
      abort_.wait();
    } else if (std::uncaught_exceptions() > 0 || NcclWatch::get().failed()) {
      abort_.begin(library_, comm_);
      abort_.wait();
    } else {
      wait_for_stream();
      if (window_ != nullptr) library_.window_deregister(comm_, window_);
      library_.comm_destroy(comm_);
    }
  }

  ncclComm_t comm() const { return comm_; }
  const std::string& label() const { return label_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Collective. All ranks signal, each to the next: to the first signal NCCL sets up what signals and puts need, for
  /// which it waits for all ranks.
  void open_window(std::shared_ptr<NcclWindowMemory> memory) {
    message_memory_ = std::move(memory);
    const auto operation =
        std::make_shared<const NcclOperation>(NcclOperation{"windows for messages (HALOGEN_NCCL_WINDOWS)", {}});
    call(operation, [&](const NcclLibrary& nccl) {
      ncclResult_t code = nccl.window_register(comm_, message_memory_->data(), message_memory_->bytes(), &window_,
                                               nccl_windows::symmetric);
      if (code != ncclSuccess || window_ == nullptr) return code;
      nccl_windows::Signals of_last{1, (rank_ + size_ - 1) % size_};
      code = nccl.signal((rank_ + 1) % size_, 0, 0, 0, comm_, stream());
      return code == ncclSuccess ? nccl.wait_signal(1, &of_last, comm_, stream()) : code;
    });
    if (window_ == nullptr) message_memory_.reset();  // of no use
  }
  /// Null where there is none, as where GPUs do not reach each other's memory.
  nccl_windows::Window window() const { return window_; }
  const std::shared_ptr<NcclWindowMemory>& message_memory() const { return message_memory_; }

  /// One call that may wait for other ranks, watched. Throws Error for what NCCL refuses, and for the first fault of
  /// any communicator so far. `where`: the stream on which it queues its work.
  template <class Call>
  void call(const std::shared_ptr<const NcclOperation>& operation, Call&& call, cudaStream_t where = stream()) {
    const bool watched = enter(operation);
    const ncclResult_t code = call(library_);
    exit(watched, where);
    NcclWatch::get().check();
    if (code != ncclSuccess) check(code, sentence(*operation));
  }

  /// The same for all that emit(library) issues, as one group.
  template <class Emit>
  void issue(const std::shared_ptr<const NcclOperation>& operation, Emit&& emit) {
    call(operation, [&](const NcclLibrary& nccl) { return grouped(nccl, emit); });
  }

  template <class Emit>
  static ncclResult_t grouped(const NcclLibrary& nccl, Emit&& emit) {
    const ncclResult_t begun = nccl.group_start();
    if (begun != ncclSuccess) return begun;
    const ncclResult_t emitted = emit(nccl), ended = nccl.group_end();
    return emitted == ncclSuccess ? ended : emitted;
  }

  /// Throws Error with the first fault of any communicator.
  void check_health() const { NcclWatch::get().check(); }

  std::string sentence(const NcclOperation& operation) const {
    return operation.what + " on \"" + label_ + "\"" + peers_text(operation.peers);
  }

  static void check(ncclResult_t code, const std::string& operation) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    throw Error(operation + ": NCCL says " + NcclLibrary::get().error_string(code) +
                " (NCCL_DEBUG=WARN prints its reason)");
  }

  // -- the watch's thread -----------------------------------------------------------------------------------------
  std::string fault() override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return {};
    retire();
    ncclResult_t code = ncclSuccess;
    library_.comm_get_async_error(comm_, &code);
    if (code != ncclSuccess && code != ncclInProgress)
      return (under_way_.empty() ? "communicator \"" + label_ + "\"" : sentence(*under_way_.front().operation)) +
             ": NCCL says " + library_.error_string(code) + " (NCCL_DEBUG=WARN prints its reason)";
    if (under_way_.empty()) return {};
    const NcclTimeout& limit = NcclWatch::get().timeout();
    const Clock::time_point since = std::max(last_end_, under_way_.front().begin);
    if (Clock::now() - since >= limit.time)
      return no_answer(sentence(*under_way_.front().operation), limit.time, limit.variable);
    if (std::exchange(waits_since_, since) != since) wait_ = LongWait(std::chrono::milliseconds(0));
    wait_.look([this] { return sentence(*under_way_.front().operation); });
    return {};
  }

  /// The main thread is left the time to come out of a call, unless the call is what hangs.
  void abort() override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr || (issuing_ && aborts_++ == 0)) return;
    abort_.begin(library_, std::exchange(comm_, nullptr));
    under_way_.clear();
  }

 private:
  /// An operation from its issue until the stream has passed its end.
  struct UnderWay {
    std::shared_ptr<const NcclOperation> operation;
    Clock::time_point begin;
    StreamMark end;
    bool issued = false;
  };

  /// First in, first out, in places that are used again with their marks.
  class Queue {
   public:
    bool empty() const { return count_ == 0; }
    UnderWay& front() { return places_[first_]; }
    UnderWay& back() { return places_[(first_ + count_ - 1) % places_.size()]; }
    void push(const std::shared_ptr<const NcclOperation>& operation) {
      if (count_ == places_.size()) {
        std::rotate(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(first_), places_.end());
        first_ = 0;
        places_.resize(std::max<std::size_t>(256, 2 * count_));
      }
      ++count_;
      back().operation = operation;
      back().begin = Clock::now();
      back().issued = false;
    }
    void pop() {
      front().operation.reset();
      first_ = (first_ + 1) % places_.size();
      --count_;
    }
    void clear() {
      while (!empty()) pop();
    }

   private:
    std::vector<UnderWay> places_;
    std::size_t first_ = 0, count_ = 0;
  };

  /// Launches that are recorded into a graph are not under way. Returns whether this one is.
  bool enter(const std::shared_ptr<const NcclOperation>& operation) {
    NcclWatch::get().check();
    const bool watched = !is_capturing();
    const std::lock_guard lock(mutex_);
    issuing_ = true;
    if (watched) under_way_.push(operation);
    return watched;
  }

  void exit(bool watched, cudaStream_t where) {
    const std::lock_guard lock(mutex_);
    issuing_ = false;
    if (!watched || under_way_.empty()) return;  // aborted
    under_way_.back().end.record(where);
    under_way_.back().issued = true;
    retire();
  }

  void retire() {
    while (!under_way_.empty() && under_way_.front().issued && under_way_.front().end.passed()) {
      under_way_.pop();
      last_end_ = Clock::now();
    }
  }

  const NcclLibrary& library_ = NcclLibrary::get();
  ncclComm_t comm_;
  std::string label_;
  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<NcclWindowMemory> message_memory_;
  nccl_windows::Window window_ = nullptr;

  std::mutex mutex_;
  bool issuing_ = false;
  int aborts_ = 0;
  NcclAbort abort_;
  Queue under_way_;
  Clock::time_point last_end_{}, waits_since_{};
  LongWait wait_{std::chrono::milliseconds(0)};  ///< the watch itself ends what takes too long
};

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
