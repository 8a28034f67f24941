// Sums over the ranks, and what they make possible: that all ranks go on, or none.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <stdexcept>

namespace earth {

// Adds the values up over all ranks, in place; collective. On a single rank it does nothing.
using AllReduceSum = std::function<void(std::span<double>)>;

// Thrown on the ranks that succeeded where another one failed; the failing rank holds the reason, so nobody
// needs to print this one.
struct OtherRankFailed : std::runtime_error {
  OtherRankFailed() : std::runtime_error("another rank could not go on; it says why") {}
};

// Runs `action` and returns if it succeeded on every rank; otherwise throws on every rank: the rank's own exception
// where there is one, else OtherRankFailed. Collective. Without it the ranks that succeeded would wait in their next
// sum for ever.
template <class Action>
void on_all_ranks(const AllReduceSum& all_reduce_sum, Action&& action) {
  std::exception_ptr failure;
  try {
    action();
  } catch (...) {
    failure = std::current_exception();
  }
  double failures = failure ? 1.0 : 0.0;
  all_reduce_sum({&failures, 1});
  if (failure) std::rethrow_exception(failure);
  if (failures > 0) throw OtherRankFailed();
}

}  // namespace earth
