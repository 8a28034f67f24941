// Mean and deviation of a dataset's channels, and the file that keeps them.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/io/checkpoint_shares.hpp"

namespace halogen::detail {

/// Of each channel of a variable.
struct ChannelStatistics {
  std::vector<double> mean, deviation;
};

/// sums: for each channel a count, and of the differences from its origin their sum and that of their squares. Where
/// nothing varies the deviation is 1.
inline ChannelStatistics statistics_of(const std::vector<double>& sums, const std::vector<double>& origin) {
  ChannelStatistics of;
  for (std::size_t c = 0; c < origin.size(); ++c) {
    const double count = std::max(1.0, sums[3 * c]), mean = sums[3 * c + 1] / count;
    const double variance = std::max(0.0, sums[3 * c + 2] / count - mean * mean);
    of.mean.push_back(origin[c] + mean);
    of.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
  return of;
}

/// Collective. Takes each variable's statistics of the times `range` from the file where that has them; the others are
/// computed(name), and added to the file. `all` has as many channels as there are.
template <class Compute>
void find_statistics(const Communicator& world, const std::filesystem::path& file, const std::vector<index_t>& range,
                     std::map<std::string, ChannelStatistics>& all, Compute computed) {
  const std::string own = agree(world, [&]() -> std::string {
    return world.rank() == 0 && std::filesystem::exists(file) ? text_in(file, 100'000'000) : "{}";
  });
  const std::string text = text_of_root(own, world);
  nlohmann::ordered_json kept = agree(world, [&] {
    try {
      return parse_json(text);
    } catch (const JsonFault&) {
      throw Error("'" + file.string() + "' are no statistics of a FieldDataset: remove it, or name another file");
    }
  });
  bool added = false;
  for (auto& [name, of] : all) {
    const std::size_t channels = of.mean.size();
    if (kept.contains(name) && kept[name].value("times", nlohmann::ordered_json()) == nlohmann::ordered_json(range) &&
        kept[name]["mean"].size() == channels && kept[name]["deviation"].size() == channels) {
      of = {kept[name]["mean"], kept[name]["deviation"]};
      continue;
    }
    of = computed(name);
    kept[name] = {{"times", range}, {"mean", of.mean}, {"deviation", of.deviation}};
    added = true;
  }
  agree(world, [&] {
    if (world.rank() == 0 && added) write_json(file, kept);
  });
}

}  // namespace halogen::detail
