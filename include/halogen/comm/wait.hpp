// Waiting for a transport by polling: a short while in a row, then giving the core away, which other ranks may need. A
// wait that becomes long is spoken of, and ended where the user has set a limit.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/settings.hpp"

namespace halogen::detail {

/// Polls in a row before the core is given away. Environment sets 0 where ranks outnumber cores.
inline int patient_polls = 200;

/// How long a rank waits in one place before it says so, and before it ends the job: HALOGEN_WAIT_WARNING and
/// HALOGEN_TIMEOUT. 0 is never. Environment sets all four.
struct Patience {
  std::chrono::milliseconds warning{0}, timeout{0};
  void (*say)(const std::string& sentence) = nullptr;  ///< as this rank, on standard error
  void (*end)(const std::string& sentence) = nullptr;  ///< the same, and ends all ranks
};
inline Patience patience;

inline std::string seconds_text(std::chrono::milliseconds time) {
  return number_text(static_cast<double>(time.count()) / 1000) + " s";
}

/// What a rank says of a wait that became too long, over MPI and NCCL alike. `variable`: what set the limit.
inline std::string no_answer(const std::string& what, std::chrono::milliseconds limit, const char* variable) {
  return what + ": no answer within " + seconds_text(limit) + " (" + variable +
         "): a peer has ended, is stopped, cannot be reached, or runs another operation";
}

/// ", peer 1" or ", peers 1, 3", each once; nothing for none.
std::string peers_text(std::vector<int> peers);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string peers_text(std::vector<int> peers) {
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::string text;
  for (const int peer : peers)
    text += (text.empty() ? peers.size() > 1 ? ", peers " : ", peer " : ", ") + std::to_string(peer);
  return text;
}
#endif

/// One wait in one place, from its first look on.
class LongWait {
 public:
  /// `timeout`: when it ends the job; 0 is never.
  explicit LongWait(std::chrono::milliseconds timeout = patience.timeout)
      : timeout_(patience.end == nullptr ? std::chrono::milliseconds(0) : timeout), next_(next_after(waited_)) {}

  /// Speaks where it is time to. what(): for what and for whom this rank waits; nothing where the transport itself
  /// looks after that.
  template <class What>
  void look(What&& what) {
    const Clock::time_point now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_, most_between_looks);
    last_ = now;
    if (waited_ >= next_) speak(what());
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// A job that was suspended as a whole has not waited meanwhile.
  static constexpr std::chrono::seconds most_between_looks{5};

  void speak(const std::string& what);

  /// When it is time to speak, or to end the job.
  Clock::duration next_after(Clock::duration waited) const;

  std::chrono::milliseconds timeout_;
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{0}, next_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE LongWait::Clock::duration LongWait::next_after(Clock::duration waited) const {
  Clock::duration next = Clock::duration::max();
  if (patience.say != nullptr && patience.warning.count() > 0)
    next = (waited / Clock::duration(patience.warning) + 1) * Clock::duration(patience.warning);
  if (timeout_.count() > 0) next = std::min<Clock::duration>(next, timeout_);
  return next;
}

HALOGEN_INLINE void LongWait::speak(const std::string& what) {
  next_ = next_after(waited_);
  if (what.empty()) return;
  if (timeout_.count() > 0 && waited_ >= timeout_)
    return patience.end(no_answer(what, timeout_, settings::timeout.name));
  const auto intervals = waited_ / Clock::duration(patience.warning);
  patience.say("has waited " + seconds_text(intervals * patience.warning) + " for " + what +
               ": a peer computes long, has left, is stopped, cannot be reached, or runs another operation "
               "(HALOGEN_TIMEOUT=<seconds> ends such a wait)");
}
#endif

/// Polls done() until it returns true. All waits of this library pass here, in pieces that end. what(): as LongWait's.
template <class What, class Done>
void poll_until(What&& what, Done&& done) {
  for (int i = 0; i < patient_polls; ++i)
    if (done()) return;
  LongWait wait;
  for (int polls = 1; !done(); ++polls) {
    if (polls % 64 == 0) wait.look(what);  // seldom: the clock costs as much as a poll
    std::this_thread::yield();
  }
}

/// The same for at most `most`; returns whether done() came true.
template <class Done>
bool poll_for(std::chrono::milliseconds most, Done&& done) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Counts the exceptions in flight at its construction, to tell in a destructor whether a new one is under way.
class Unwinding {
 public:
  explicit operator bool() const { return std::uncaught_exceptions() > exceptions_; }

 private:
  int exceptions_ = std::uncaught_exceptions();
};

/// For destructors of pending operations: their memory must outlive them, so they wait. During an exception the peers
/// may never answer; then the wait is bounded, and the throw from a destructor ends all ranks (terminate.hpp).
template <class What, class Done>
void poll_at_end(const Unwinding& unwinding, const std::string& name, What&& what, Done&& done) {
  if (!unwinding) return poll_until(what, done);
  if (!poll_for(std::chrono::seconds(5), done))
    throw Error("left by an exception while \"" + name + "\" was under way, and its peers did not answer");
}

}  // namespace halogen::detail
