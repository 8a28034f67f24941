// What a FieldDataset is made of: its options, which C++ takes in the order in which they stand here. One by one they
// may be set in any order:
//
//   hg::FieldDatasetOptions options;
//   options.samples = 4;
//   options.inputs = options.targets = {"h", "u", "v"};
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"

namespace halogen {

/// Variables are arrays (time, latitude, longitude), or with a dimension between, each of whose points is a channel
/// (time, level, latitude, longitude); statics have no time. Channels lie variable by variable within a time, the times
/// one after the other, statics behind them, and last the mask, if there is one.
struct FieldDatasetOptions {
  std::vector<std::string> inputs{}, targets{};          ///< names of variables
  std::vector<std::string> statics{};                    ///< more inputs, read once
  std::vector<index_t> input_times{0}, target_times{1};  ///< beside a sample's time, in steps of the time axis
  bool input_mask = false;       ///< one channel more of the image: 1 where all of its numbers are there, 0 elsewhere
  index_t samples = 1;           ///< of a batch, over all ranks
  index_t first = 0, last = -1;  ///< times that samples are made of, first up to before last; last -1: to the end
  bool shuffle = true;           ///< which samples a batch has, by the seed
  std::uint64_t seed = 0;
  bool normalise = true;  ///< (value - mean) / deviation, by channel
  /// Where both are kept; empty: beside the store, STORE.statistics.json. A checkpoint of hg::fit, or the folder of a
  /// run's checkpoints: those that it was trained with, as they are.
  std::filesystem::path statistics{};
  /// Times that both are of: for what is held out those that were trained on. -1: first and last.
  index_t statistics_first = -1, statistics_last = -1;
  /// The file `statistics` is taken as it is, whatever data and times its numbers are of, and not written: for what is
  /// held out in another store than what was trained on.
  bool statistics_as_they_are = false;
};

namespace detail {

/// CollectiveError where a prediction does not make the next image of a rollout.
inline void require_next(const FieldDatasetOptions& options) {
  const std::string none = "FieldDataset: there is no next image: ";
  const std::vector<index_t>& times = options.input_times;
  bool is_next = options.target_times.size() == 1 && options.target_times[0] == times.back() + 1;
  for (std::size_t i = 1; i < times.size(); ++i) is_next = is_next && times[i] == times[i - 1] + 1;
  if (!is_next) throw CollectiveError(none + "the targets must be one step after the last of consecutive input times");
  for (const std::string& name : options.inputs)
    if (std::ranges::find(options.targets, name) == options.targets.end())
      throw CollectiveError(none + "the input '" + name +
                            "' is no target: name it as one, or as a static if it does not change");
}

}  // namespace detail

}  // namespace halogen
