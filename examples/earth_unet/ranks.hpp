// What the data preparation needs of the ranks: this is the seam to Halogen, which it does not know.
#pragma once

#include <functional>
#include <span>

namespace earth {

// Both are collective. As they stand here they serve a single process.
struct Ranks {
  // Adds the values up over all ranks, in place.
  std::function<void(std::span<double>)> all_reduce_sum = [](std::span<double>) {};

  // Runs a local action on every rank and throws on all of them if it threw on any; else the ranks that succeeded would
  // wait in their next sum for ever.
  std::function<void(const std::function<void()>&)> agree = [](const std::function<void()>& action) { action(); };
};

}  // namespace earth
