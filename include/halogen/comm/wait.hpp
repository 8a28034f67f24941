// Waiting for a transport by polling: a short while in a row, then giving the core away, which other ranks may need.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include "halogen/comm/error.hpp"

namespace halogen::detail {

/// Polls in a row before the core is given away. Environment sets 0 where ranks outnumber cores.
inline int patient_polls = 200;

/// Polls done() until it returns true.
template <class Done>
void poll_until(Done&& done) {
  for (int i = 0; i < patient_polls; ++i)
    if (done()) return;
  while (!done()) std::this_thread::yield();
}

/// The same for at most `patience`; returns whether done() came true.
template <class Done>
bool poll_for(std::chrono::milliseconds patience, Done&& done) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
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
template <class Done>
void poll_at_end(const Unwinding& unwinding, const std::string& what, Done&& done) {
  if (!unwinding) return poll_until(done);
  if (!poll_for(std::chrono::seconds(5), done))
    throw Error("left by an exception while \"" + what + "\" was under way, and its peers did not answer");
}

}  // namespace halogen::detail
