// Where a run of hg::fit stands, and the checkpoints by which it goes on from there.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "halogen/core/number_text.hpp"
#include "halogen/io/checkpoints.hpp"
#include "halogen/io/stop_signal.hpp"

namespace halogen {

/// One epoch, as it stands in the file of metrics; the same on all ranks.
struct EpochReport {
  index_t epoch = 0;  ///< from 1
  index_t step = 0;   ///< updates so far
  double loss = 0;    ///< mean over its steps, each before its update
  std::optional<double> held_out;
  double rate = 0;  ///< the learning rate of its last step
  double samples_per_second = 0;
};

/// Checkpoints of hg::fit; an empty folder: none. A run begins where the newest whole one in the folder was: in the
/// middle of an epoch too. It writes one at the end, and where SIGTERM or the time limit ends it.
struct FitCheckpoints {
  std::filesystem::path folder{};
  index_t every_steps = 0;   ///< 0: not by steps; without every_seconds either, at the end of each epoch
  double every_seconds = 0;  ///< by rank 0's clock; 0: not by time
  double time_limit = 0;     ///< seconds from the call of fit on; 0: none
  int keep_last = 3;
  bool asynchronous = true;   ///< steps go on while it is written
  bool new_schedule = false;  ///< as LoadOptions has it: the run goes on by another schedule than it began with
};

namespace detail {

inline nlohmann::ordered_json json_of(const EpochReport& report) {
  nlohmann::ordered_json line{{"epoch", report.epoch}, {"step", report.step}, {"loss", report.loss}};
  if (report.held_out) line["held_out"] = *report.held_out;
  line["rate"] = report.rate;
  line["samples_per_second"] = report.samples_per_second;
  return line;
}
inline EpochReport epoch_report_of(const nlohmann::ordered_json& line) {
  EpochReport report{line.at("epoch"),           line.at("step"),
                     number_of(line.at("loss")), std::nullopt,
                     number_of(line.at("rate")), number_of(line.at("samples_per_second"))};
  if (line.contains("held_out")) report.held_out = number_of(line["held_out"]);
  return report;
}

/// The next batch of an epoch, counted from 0, and what it has summed so far.
struct FitPosition {
  index_t epoch = 0, batch = 0;
  double loss = 0;
  std::vector<EpochReport> history{};
  std::optional<EpochReport> part{};  ///< of an epoch in whose middle the run has ended
};

/// The statistics that a run of fit kept in a checkpoint, or in the newest of a folder of checkpoints.
inline nlohmann::ordered_json statistics_of_checkpoint(const fs::path& path) {
  std::error_code none;
  const auto found = checkpoints_in(path);
  const bool is_whole_run = !fs::exists(path / manifest_file, none) && !found.empty();
  const Json more =
      parse_manifest(text_in((is_whole_run ? found.front() : path) / manifest_file, longest_manifest)).more;
  if (!more.contains("statistics"))
    throw Error("FieldDataset: the checkpoint '" + path.string() +
                "' has no statistics: name one that hg::fit wrote with normalised data, or another file");
  return more["statistics"];
}

/// Which of a dataset's statistics (FieldDataset::all_statistics) differ by more than rounding, in words, or nothing.
inline std::string other_statistics(const nlohmann::ordered_json& then, const nlohmann::ordered_json& now) {
  if (now.is_null()) return then.is_null() ? "" : "statistics, but this run's data has none";
  for (const auto& [name, of] : now.items()) {
    if (!then.contains(name)) return "statistics of other variables than '" + name + "'";
    const std::vector<double> means[2] = {then[name].at("mean"), of.at("mean")},
                              deviations[2] = {then[name].at("deviation"), of.at("deviation")};
    if (means[0].size() != means[1].size()) return "'" + name + "' of another number of channels";
    for (std::size_t c = 0; c < means[0].size(); ++c) {
      const double least = 1e-6 * deviations[0][c];
      if (std::abs(means[0][c] - means[1][c]) <= least && std::abs(deviations[0][c] - deviations[1][c]) <= least)
        continue;
      const auto words = [&](int i) {
        return "mean " + nlohmann::json(means[i][c]).dump() + " and deviation " +
               nlohmann::json(deviations[i][c]).dump();
      };
      return "other statistics ('" + name + "' had " + words(0) + ", and has " + words(1) + " now)";
    }
  }
  return "";
}

/// The checkpoints of one run of fit.
class FitKeeper {
 public:
  /// order: what the order of batches depends on, which a run that goes on must have the same. statistics: by which the
  /// data are normalised, which must be the same too but for rounding; null: by none that are known.
  FitKeeper(const FitCheckpoints& options, const Communicator& world, nlohmann::ordered_json order,
            nlohmann::ordered_json statistics)
      : options_(options),
        world_(world),
        order_(std::move(order)),
        statistics_(std::move(statistics)),
        checkpoints_(options.folder, {options.keep_last, options.asynchronous}) {
    if (options.every_steps < 0 || !(options.every_seconds >= 0) || !(options.time_limit >= 0))
      throw CollectiveError("fit: checkpoints every " + std::to_string(options.every_steps) + " steps or " +
                            number_text(options.every_seconds) + " s, a time limit of " +
                            number_text(options.time_limit) + " s: give 0 or more");
  }

  /// Collective: where the newest whole checkpoint was.
  template <class AnyTrainer>
  FitPosition resume(AnyTrainer& trainer) {
    FitPosition position;
    const auto found = checkpoints_.load_newest(trainer, LoadOptions{options_.new_schedule});
    if (!found) return position;
    const auto refuse = [&](const std::string& what) {
      throw CollectiveError("fit: the checkpoint '" + found->folder.string() + "' " + what +
                            ": give this run a folder of its own");
    };
    if (!found->more.contains("fit")) refuse("is not of a run of fit");
    const nlohmann::ordered_json& state = found->more["fit"];
    if (state.at("order") != order_)
      refuse("is of a run with batches and order " + state["order"].dump() + ", this one has " + order_.dump());
    if (found->more.contains("statistics"))
      if (const std::string other = other_statistics(found->more["statistics"], statistics_); !other.empty())
        throw CollectiveError("fit: the checkpoint '" + found->folder.string() + "' was trained on data with " + other +
                              ": give the data {.statistics = \"" + found->folder.string() +
                              "\"}, or this run a folder of its own");
    position.epoch = state.at("epoch");
    position.batch = state.at("batch");
    position.loss = number_of(state.at("loss"));
    for (const nlohmann::ordered_json& line : state.at("history")) position.history.push_back(epoch_report_of(line));
    if (state.contains("part")) position.part = epoch_report_of(state["part"]);
    return position;
  }

  /// Collective, after each step: writes what is due. Whether the run must end here.
  template <class AnyTrainer>
  bool after_step(const AnyTrainer& trainer, const FitPosition& position, index_t steps) {
    const auto now = Clock::now();
    const auto past = [&](Clock::time_point begin) { return std::chrono::duration<double>(now - begin).count(); };
    const bool by_epoch = options_.every_steps == 0 && options_.every_seconds == 0;
    int due[2] = {stop_.is_set() || (options_.time_limit > 0 && past(begin_) >= options_.time_limit),
                  options_.every_seconds > 0 && past(last_) >= options_.every_seconds};
    if (world_.rank() != 0) due[1] = 0;
    world_.all_reduce(due, 2, ReduceOp::max);
    const bool stops = due[0] != 0;
    if (stops || due[1] != 0 || (by_epoch && position.batch == 0) ||
        (options_.every_steps > 0 && steps % options_.every_steps == 0)) {
      save(trainer, position);
      last_ = now;
    } else {
      checkpoints_.poll();
    }
    if (stops) checkpoints_.wait();
    return stops;
  }

  /// Collective, at the end of the run.
  template <class AnyTrainer>
  void finish(const AnyTrainer& trainer, const FitPosition& position) {
    if (saved_ != trainer.optimizer_state().steps()) save(trainer, position);
    checkpoints_.wait();
  }

  /// Collective: words about the checkpoint to go back to.
  std::string words_about_newest() {
    const std::filesystem::path newest = checkpoints_.newest(world_);
    return newest.empty() ? "no checkpoint is written yet" : "the last checkpoint is '" + newest.string() + "'";
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class AnyTrainer>
  void save(const AnyTrainer& trainer, const FitPosition& position) {
    nlohmann::ordered_json history = nlohmann::ordered_json::array();
    for (const EpochReport& report : position.history) history.push_back(json_of(report));
    nlohmann::ordered_json state{{"order", order_},
                                 {"epoch", position.epoch},
                                 {"batch", position.batch},
                                 {"loss", position.loss},
                                 {"history", std::move(history)}};
    if (position.part) state["part"] = json_of(*position.part);
    nlohmann::ordered_json more{{"fit", std::move(state)}};
    if (!statistics_.is_null()) more["statistics"] = statistics_;
    checkpoints_.save(trainer, std::move(more));
    saved_ = trainer.optimizer_state().steps();
  }

  FitCheckpoints options_;
  Communicator world_;
  nlohmann::ordered_json order_, statistics_;
  Checkpoints checkpoints_;
  StopSignal stop_;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  index_t saved_ = -1;
};

}  // namespace detail

}  // namespace halogen
