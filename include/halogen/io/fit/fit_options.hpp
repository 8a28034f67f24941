// Options of hg::fit, and what it tells a caller after each step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "halogen/halo/piece_view.hpp"
#include "halogen/io/fit/fit_position.hpp"
#include "halogen/io/progress_bar.hpp"

namespace halogen {

/// One step, on all ranks alike.
struct StepReport {
  index_t step = 0;   ///< updates so far, this one too
  index_t epoch = 0;  ///< from 1
  double loss = 0;    ///< before its update
  double rate = 0;
};

/// held-out batches are looked at every `evaluate_every` epochs, and after the last. after_step, after_epoch: called on
/// each rank that gives one; false on any rank ends the run on all of them. Where one throws on all ranks, fit throws
/// that on each; where on some, all throw its sentence as a CollectiveError. Agreeing takes one all_reduce of three
/// numbers a call, and none where no rank gives one. What decides when ranks meet is the same on all ranks, which fit
/// checks by one all_reduce: all but metrics, progress, the calls, and what FitCheckpoints reads from one clock.
struct FitOptions {
  index_t epochs = 1;
  index_t steps = 0;  ///< above 0: the run ends after so many, in the middle of an epoch too, whatever `epochs` says
  index_t evaluate_every = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::filesystem::path metrics{};  ///< JSON lines, one an epoch; empty: none. scripts/plot_losses draws them
  Progress progress = Progress::automatic;
  std::function<bool(const StepReport&)> after_step{};
  std::function<bool(const EpochReport&)> after_epoch{};
  FitCheckpoints checkpoints{};
};

namespace detail {

/// Collective, one all_reduce. Throws CollectiveError on all ranks where they were given other options, or other
/// numbers of batches: they would wait for each other in the first collective that one of them leaves out.
inline void check_same_options(const Communicator& world, const FitOptions& options, index_t batches,
                               index_t held_out) {
  const FitCheckpoints& kept = options.checkpoints;
  static constexpr const char* names[] = {"the number of batches",
                                          "the number of held-out batches",
                                          "epochs",
                                          "steps",
                                          "evaluate_every",
                                          "shuffle",
                                          "seed",
                                          "checkpoints (1: with a folder)",
                                          "checkpoints.every_steps",
                                          "checkpoints by time (1: with every_seconds)",
                                          "checkpoints.asynchronous"};
  const std::vector<index_t> numbers{batches,
                                     held_out,
                                     options.epochs,
                                     options.steps,
                                     options.evaluate_every,
                                     options.shuffle,
                                     static_cast<index_t>(options.seed),
                                     !kept.folder.empty(),
                                     kept.every_steps,
                                     kept.every_seconds > 0,
                                     kept.asynchronous};
  check_same_numbers(world, numbers, [](std::size_t i, const std::string& a, const std::string& b) {
    return std::string("fit: ") + names[i] + ": " + a + " on one rank and " + b +
           " on another: give all ranks the same data and options";
  });
}

}  // namespace detail

}  // namespace halogen
