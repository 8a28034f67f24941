// Mean and deviation of a dataset's channels, the file that keeps them, and of which data they are.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/io/crc32.hpp"
#include "halogen/io/data/series_variable.hpp"
#include "halogen/io/text.hpp"

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

/// Collective: reads a variable at the times [range.begin, range.end), each rank its own points at the times that are
/// its turn (its number, and how many take turns) among the ranks that have the same points.
inline ChannelStatistics computed_statistics(const Communicator& world, const SeriesVariable& variable, Interval range,
                                             const PointBox& own, std::pair<index_t, index_t> turn) {
  const auto channels = static_cast<std::size_t>(variable.channels()), points = static_cast<std::size_t>(own.points());
  std::vector<double> sums(3 * channels), origin(channels);
  agree(world, [&] {
    const PointBox corner{std::vector<index_t>(own.begin.size(), 0), std::vector<index_t>(own.begin.size(), 1)};
    variable.read(range.begin, corner, origin.data());
    for (double& first : origin)
      if (std::isnan(first)) first = 0;
    std::vector<double> values(channels * points);
    for (index_t t = range.begin + turn.first; t < range.end && points > 0; t += turn.second) {
      variable.read(t, own, values.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t c = i / points;
        const double value = values[i] - origin[c];
        if (std::isnan(value)) continue;
        sums[3 * c] += 1;
        sums[3 * c + 1] += value;
        sums[3 * c + 2] += value * value;
      }
    }
  });
  world.all_reduce(sums.data(), sums.size());
  return statistics_of(sums, origin);
}

/// Times and boxes of channels and points by which a variable is known again: all of it where it has up to 4 million
/// numbers at these times, else so many in 64 boxes, from the first time to the last and at various places.
inline std::vector<std::pair<index_t, PointBox>> looked_at(const SeriesVariable& variable, Interval range) {
  constexpr index_t most = index_t{1} << 22, parts = 64;
  std::vector<index_t> whole = variable.space();
  whole.insert(whole.begin(), variable.channels());
  const index_t points = PointBox{whole, whole}.points();
  if (points == 0) return {};
  const index_t count = points > most / range.size() ? parts : range.size();
  std::vector<std::pair<index_t, PointBox>> boxes;
  for (index_t k = 0; k < count; ++k) {
    PointBox box{whole, whole};
    index_t left = most / count;
    for (std::size_t d = whole.size(); d-- > 0; left = std::max<index_t>(1, left / box.extent[d])) {
      box.extent[d] = std::min(whole[d], left);
      box.begin[d] = (whole[d] - box.extent[d]) * (k * 37 % parts) / (parts - 1);  // from 0 to the last one there is
    }
    boxes.emplace_back(range.begin + (count == 1 ? 0 : k * (range.size() - 1) / (count - 1)), box);
  }
  return boxes;
}

/// Collective: what a variable holds at those times, in short: its channels, its points and a checksum of the values
/// that are looked at. The same for the same values in whatever file.
inline Json print_of(const Communicator& world, const SeriesVariable& variable, Interval range) {
  const auto boxes = looked_at(variable, range);
  std::vector<std::int64_t> sums(boxes.size());
  agree(world, [&] {
    std::vector<double> values;
    for (std::size_t k = static_cast<std::size_t>(world.rank()); k < boxes.size();
         k += static_cast<std::size_t>(world.size())) {
      values.resize(static_cast<std::size_t>(boxes[k].second.points()));
      if (!values.empty()) variable.read_box(boxes[k].first, boxes[k].second, values.data());
      for (double& value : values)
        if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // of one kind
      sums[k] = static_cast<std::int64_t>(crc32_of(values.data(), values.size() * sizeof(double)));
    }
  });
  world.all_reduce(sums.data(), sums.size());
  return {{"channels", variable.channels()},
          {"points", variable.space()},
          {"crc32", crc32_of(sums.data(), sums.size() * sizeof(std::int64_t))}};
}

inline Json json_of(const std::map<std::string, ChannelStatistics>& all) {
  Json json = Json::object();
  for (const auto& [name, of] : all) json[name] = {{"mean", of.mean}, {"deviation", of.deviation}};
  return json;
}

/// A variable's, of so many channels; nothing where the JSON has none.
inline std::optional<ChannelStatistics> statistics_in(const Json& all, const std::string& name,
                                                      std::size_t channels) try {
  ChannelStatistics of{all.at(name).at("mean"), all.at(name).at("deviation")};
  if (of.mean.size() != channels || of.deviation.size() != channels) return std::nullopt;
  return of;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

/// Where statistics are kept. of_folder: reads those of a checkpoint, which is a folder.
struct StatisticsFile {
  std::filesystem::path path;
  bool is_named = false;     ///< by the caller: those of other data in it are not written over
  bool as_they_are = false;  ///< taken whatever they are of, not written
  Json (*of_folder)(const fs::path&) = nullptr;

  /// Collective: what it holds. Those of a checkpoint are taken as they are.
  Json read(const Communicator& world) {
    std::error_code fault;
    int is_folder = world.rank() == 0 && std::filesystem::is_directory(path, fault) ? 1 : 0;
    world.broadcast(&is_folder, sizeof is_folder, 0);
    as_they_are = as_they_are || is_folder != 0;
    const std::string own = agree(world, [&]() -> std::string {
      if (world.rank() != 0) return "";
      std::error_code none;
      if (is_folder == 0) return std::filesystem::exists(path, none) ? text_in(path, 100'000'000) : "{}";
      return json_text(of_folder(path));
    });
    const std::string text = text_of_root(own, world);
    return agree(world, [&] {
      const auto parsed = [&] {
        try {
          return parse_json(text);
        } catch (const JsonFault&) {
          return Json();
        }
      }();
      if (!parsed.is_object())
        throw Error("'" + path.string() + "' are no statistics of a FieldDataset: remove it, or name another file");
      return parsed;
    });
  }

  /// Local: what writes the file; the sentence names it and the way out.
  template <class Write>
  void with_file(Write write) const try {
    write();
  } catch (const std::exception& error) {
    throw Error("FieldDataset: the statistics of this data cannot be kept in '" + path.string() + "' (" +
                words_of_fault(error, path) + "): name a file that can be written, {.statistics = ...}");
  }
};

/// Collective. Takes each variable's statistics from the file where that has them of these times and of this data; the
/// others are computed(name), and added to the file. `all` has as many channels as there are.
template <class Compute>
void find_statistics(const Communicator& world, StatisticsFile file, Interval range,
                     const std::map<std::string, SeriesVariable>& variables,
                     std::map<std::string, ChannelStatistics>& all, Compute computed) {
  Json kept = file.read(world);
  bool added = false;
  for (auto& [name, of] : all) {
    const std::optional<ChannelStatistics> found = statistics_in(kept, name, of.mean.size());
    if (file.as_they_are) {
      if (!found)
        throw CollectiveError("FieldDataset: '" + file.path.string() + "' has no statistics of '" + name + "' with " +
                              std::to_string(of.mean.size()) +
                              " channels, but those in it are to be taken as they are: "
                              "name a file or a checkpoint that has them");
      of = *found;
      continue;
    }
    const SeriesVariable& variable = variables.at(name);
    const Interval times = variable.has_time() ? range : Interval{0, 1};
    const Json print = print_of(world, variable, times), of_times = {range.begin, range.end};
    const bool same_times = found && kept[name].value("times", Json()) == of_times;
    const bool same_data = found && kept[name].value("data", Json()) == print;
    if (same_times && same_data) {
      of = *found;
      continue;
    }
    if (same_times && file.is_named)
      throw CollectiveError("FieldDataset: the statistics of '" + name + "' in '" + file.path.string() +
                            "' are not of this data (other values, or a file that does not say of which): remove the "
                            "file, name another, or set statistics_as_they_are if they are meant");
    agree(world, [&] {  // before what may take hours
      if (world.rank() == 0 && !added) file.with_file([&] { Replacement(file.path); });
    });
    of = computed(name, times);
    kept[name] = {{"times", of_times}, {"mean", of.mean}, {"deviation", of.deviation}, {"data", print}};
    added = true;
  }
  agree(world, [&] {
    if (world.rank() == 0 && added) file.with_file([&] { write_json(file.path, kept); });
  });
}

}  // namespace halogen::detail
