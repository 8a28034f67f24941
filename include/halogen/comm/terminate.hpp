// The last words of a run: an exception that nobody caught is said once, and all ranks end.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "halogen/comm/error.hpp"
#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"
#include "halogen/core/config.hpp"

#ifdef HALOGEN_WITH_MPI
#include "halogen/comm/mpi/handle.hpp"
#endif

namespace halogen::detail {

/// All ranks, on a communicator that carries nothing else: whatever is half done elsewhere cannot be mistaken for it.
/// Set while an Environment lives; null means one process. Over MPI where there is MPI.
inline std::shared_ptr<Transport> all_ranks;

inline int launched_rank = 0, launched_size = 1;  ///< where all_ranks is not there yet, or no longer
inline int world_rank = -1;                       ///< of MPI_COMM_WORLD, where that has other ranks than all_ranks
inline bool have_met = true;                      ///< false while processes that no MPI started look for each other
inline bool has_mpi = false;                      ///< whether an Environment has found or started it

void say(const std::string& words);
#if HALOGEN_BODIES
HALOGEN_INLINE void say(const std::string& words) {
  std::cout.flush();
  std::fflush(nullptr);
  std::fputs((words + "\n").c_str(), stderr);
  std::fflush(stderr);
}
#endif

/// "rank 3", as this rank calls itself in its words; "rank 3 (rank 7 of MPI_COMM_WORLD)" in a part of the world.
inline std::string self_name() {
  return "rank " + std::to_string(all_ranks ? all_ranks->rank() : launched_rank) +
         (world_rank < 0 ? "" : " (rank " + std::to_string(world_rank) + " of MPI_COMM_WORLD)");
}

/// "error", of one of several ranks "error on rank 3".
inline std::string error_name() {
  return (all_ranks ? all_ranks->size() : launched_size) > 1 ? "error on " + self_name() : "error";
}

/// Whether every rank comes to call this; waits for `most`, or as long as it takes.
bool all_ranks_arrive(std::optional<std::chrono::milliseconds> most);
#if HALOGEN_BODIES
HALOGEN_INLINE bool all_ranks_arrive(std::optional<std::chrono::milliseconds> most) {
  if (!all_ranks || all_ranks->size() == 1) return true;
  try {
    const Pending pending = all_ranks->barrier();
    const auto arrived = [pending] { return pending == nothing_pending || all_ranks->test(pending); };
    if (most) return poll_for(*most, arrived);
    poll_until(
        [] {
          return "the other ranks at the end of its Environment (has it left main, or a loop of theirs, before them?)";
        },
        arrived);
    return true;
  } catch (const Error&) {  // the transport is what failed
    return false;
  }
}
#endif

/// Ends this process, and the others with it unless they end by themselves (`together`). SIGALRM ends it should MPI
/// hang. Without MPI it is the launcher that ends the others, or their own time-out.
[[noreturn]] inline void leave([[maybe_unused]] bool together) {
  alarm(5);
#ifdef HALOGEN_WITH_MPI
  if (has_mpi) together&& world_rank < 0 ? MPI_Finalize() : MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
#endif
  std::_Exit(EXIT_FAILURE);
}

/// The same when main is left, in 5 s at the latest: until then whoever catches the exception that this rank unwinds
/// for can say what it was.
void leave_soon();
#if HALOGEN_BODIES
HALOGEN_INLINE void leave_soon() {
  std::atexit([] { leave(false); });
  std::thread([] {
    sleep(5);
    leave(false);
  }).detach();
}
#endif

/// Says the sentence as this rank's error and ends all ranks.
[[noreturn]] inline void end_all_ranks(const std::string& sentence) {
  say(error_name() + ": " + sentence);
  leave(false);
}

/// What waits do where they become long (wait.hpp).
inline void set_patience(std::chrono::milliseconds warning, std::chrono::milliseconds timeout) {
  patience = {warning, timeout, [](const std::string& sentence) { say("halogen: " + self_name() + " " + sentence); },
              [](const std::string& sentence) { end_all_ranks(sentence); }};
}

/// For std::set_terminate. A CollectiveError is every rank's: rank 0 prints `error: ...` and the others give it 2 s to
/// do so; where it does not come, since the error is one of a sub-mesh without it, the lowest rank that has one speaks
/// and aborts all. Anything else is one rank's: it prints `error on rank r: ...` and aborts all. Runs before the stack
/// unwinds.
[[noreturn]] void terminate_all_ranks() noexcept;
#if HALOGEN_BODIES
HALOGEN_INLINE void terminate_all_ranks() noexcept {
  static std::atomic_flag speaking;
  if (speaking.test_and_set()) {  // a second thread, or an exception in here
    sleep(5);
    std::_Exit(EXIT_FAILURE);
  }
  const int rank = all_ranks ? all_ranks->rank() : launched_rank;
  std::string sentence = "terminated without an exception";
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const CollectiveError& error) {
    if (rank == 0) say(std::string("error: ") + error.what());
    if (!have_met && rank > 0) say("error on " + self_name() + ": " + error.what());
    if (have_met && !all_ranks && rank > 0) sleep(1);  // behind the end of MPI; a launcher ends all with the first
    const bool together = all_ranks_arrive(std::chrono::seconds(2));
    if (!together && rank > 0) {
      usleep(static_cast<useconds_t>(std::min(20'000 * (rank - 1), 900'000)));
      say("error on " + self_name() + ": " + error.what());
    }
    leave(together);
  } catch (const std::exception& error) {
    sentence = error.what();
  } catch (...) {
    sentence = "an exception that is no std::exception";
  }
  end_all_ranks(sentence);
}
#endif

}  // namespace halogen::detail
