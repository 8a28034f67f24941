// Processes that meet without MPI: before there is a transport each tells all others a few words.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/comm/start.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen::detail {

/// Knows rank and size from the launcher. Faults are an Error of the rank that finds them: the others may be absent.
class Rendezvous {
 public:
  Rendezvous(const Launched& launched, std::string where, std::chrono::milliseconds timeout)
      : launched_(launched), where_(std::move(where)), timeout_(timeout) {}
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  virtual ~Rendezvous() = default;

  int rank() const { return launched_.rank; }
  int size() const { return launched_.size; }

  /// Equally many bytes from each, in rank order; as often as wanted, by all in one order. Throws Error where one does
  /// not come in time.
  virtual void all_gather(const void* own, std::size_t bytes, void* all) = 0;

 protected:
  using Clock = std::chrono::steady_clock;

  std::string self() const {
    return "rank " + std::to_string(rank()) + " of " + std::to_string(size()) + " at " + where_;
  }
  [[noreturn]] void give_up(const std::string& missing) const {
    throw Error(self() + " waited " + seconds_text(timeout_) + " for " + missing +
                ": are all processes started, with one address? (HALOGEN_RENDEZVOUS_TIMEOUT)");
  }
  Clock::time_point deadline() const { return Clock::now() + timeout_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  const std::string& where() const { return where_; }

 private:
  Launched launched_;
  std::string where_;
  std::chrono::milliseconds timeout_;
};

}  // namespace halogen::detail
