// fit(trainer, loss, data, options): a whole training run. Epochs over batches in an order drawn by seed and epoch, the
// loss of what is held out by averaged weights, a progress bar, metrics as JSON lines, a plot, an early end.
//
//   data: anything with size() and [i], such as std::vector<hg::Batch<X, Y>>, or hg::batches(count, make): make(i)
//   returns hg::Batch{x, y} or hg::Batch{x, y, weight}, each field cut as the mesh wants it, alike on all ranks; what
//   has prefetch(i) is told the next one while a step runs
//
//   auto data = hg::batches(days, [&](hg::index_t day) { return hg::Batch{load(day, "now"), load(day, "later")}; });
//   hg::fit(trainer, hg::huber, data, {.epochs = 12, .metrics = "run.jsonl", .plot = "loss.svg"}, held_out);
//
//   collectives: those of the steps; files are written by rank 0, and a failure reaches all ranks as one sentence.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/core/philox.hpp"
#include "halogen/io/fit_position.hpp"
#include "halogen/train/evaluate_loss.hpp"
#include "halogen/train/trainer.hpp"

namespace halogen {

/// What a step takes: an image (or hg::Inputs), a label (or hg::Labels), a weight or none.
template <class X, class Y, class W = NoWeight>
struct Batch {
  X x;
  Y y;
  W weight;
  Batch(const X& image, const Y& label, const W& weight_field = {}) : x(image), y(label), weight(weight_field) {}
};
template <class X, class Y>
Batch(X, Y) -> Batch<X, Y>;
template <class X, class Y, class W>
Batch(X, Y, W) -> Batch<X, Y, W>;

/// `count` batches, each made when its turn comes.
template <class Make>
struct Batches {
  index_t count;
  Make make;
  index_t size() const { return count; }
  auto operator[](index_t i) const { return make(i); }
};
template <class Make>
Batches<Make> batches(index_t count, Make make) {
  return {count, std::move(make)};
}

enum class Progress { automatic, none, bar };  ///< automatic: a bar where standard error is a terminal

/// held-out batches are looked at every `evaluate_every` epochs, and after the last. after_epoch: called on all ranks;
/// false ends the run.
struct FitOptions {
  index_t epochs = 1;
  index_t evaluate_every = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::filesystem::path metrics{};  ///< JSON lines, one an epoch; empty: none
  std::filesystem::path plot{};     ///< SVG of both losses; empty: none
  Progress progress = Progress::automatic;
  std::function<bool(const EpochReport&)> after_epoch{};
  FitCheckpoints checkpoints{};
};

/// All epochs' reports, those of the run before that was gone on from too.
struct FitHistory : std::vector<EpochReport> {
  bool stopped = false;  ///< SIGTERM or the time limit ended the run; a next one goes on from its checkpoint
};

namespace detail {

/// No held-out batches.
struct NothingHeldOut {
  index_t size() const { return 0; }
};

/// Numbers 0 to count - 1.
inline std::vector<index_t> own_order(index_t count) {
  std::vector<index_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), index_t{0});
  return order;
}
/// Puts them in the order that seed and epoch give (Fisher and Yates).
inline void shuffle(std::vector<index_t>& order, std::uint64_t seed, index_t epoch) {
  for (auto i = static_cast<index_t>(order.size()) - 1; i > 0; --i) {
    constexpr std::uint32_t stream = 0x0de7;  // no layer's
    const auto bits = random_bits({seed, static_cast<std::uint64_t>(epoch), stream}, static_cast<std::uint64_t>(i));
    const double unit = unit_of(bits[0], bits[1]);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(unit * static_cast<double>(i + 1))]);
  }
}

/// Whether a bar is shown.
inline bool shows_progress(Progress progress) {
  return progress == Progress::bar || (progress == Progress::automatic && isatty(STDERR_FILENO) != 0);
}

/// Both losses by epoch, on a logarithmic scale where they are positive.
inline void write_loss_plot(const std::filesystem::path& file, const std::vector<EpochReport>& history) {
  constexpr double width = 640, height = 400, left = 70, top = 20;
  double least = 1e300, most = 0;
  const auto widen = [&](double loss) {
    if (!(loss > 0 && std::isfinite(loss))) return;
    least = std::min(least, loss);
    most = std::max(most, loss);
  };
  for (const EpochReport& report : history) {
    widen(report.loss);
    widen(report.held_out.value_or(0));
  }
  if (most == 0) least = most = 1;
  const double low = std::log10(least), range = std::max(std::log10(most) - low, 1e-9);
  std::ofstream out(file);
  char text[256];
  const auto write = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    out << text;
  };
  write(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      width + left + 30, height + top + 50);
  write("<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"none\" stroke=\"#888\"/>\n", left, top, width,
        height);
  write("<text x=\"4\" y=\"%g\">%.3g</text>\n<text x=\"4\" y=\"%g\">%.3g</text>\n", top + 10, most, top + height,
        least);
  write("<text x=\"%g\" y=\"%g\">epoch 1 to %lld, logarithmic</text>\n", left, top + height + 20,
        static_cast<long long>(history.empty() ? 0 : history.back().epoch));
  const auto line = [&](const char* name, const char* colour, double at, auto loss_of) {
    out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (const EpochReport& report : history) {
      const std::optional<double> loss = loss_of(report);
      if (!loss || !(*loss > 0)) continue;
      const double span = std::max<double>(1, static_cast<double>(history.back().epoch - 1));
      write("%.1f,%.1f ", left + width * static_cast<double>(report.epoch - 1) / span,
            top + height * (1 - (std::log10(*loss) - low) / range));
    }
    out << "\"/>\n";
    write("<text x=\"%g\" y=\"%g\" fill=\"%s\">%s</text>\n", left + at, top + height + 40, colour, name);
  };
  line("loss", "#1f77b4", 0, [](const EpochReport& report) { return std::optional<double>(report.loss); });
  line("held out", "#d62728", 100, [](const EpochReport& report) { return report.held_out; });
  out << "</svg>\n";
  if (!out.flush()) throw Error("'" + file.string() + "' cannot be written: look at the folder and its space");
}

/// Overwrites its line on standard error.
inline void show_progress(const FitOptions& options, index_t epoch, index_t step, index_t steps, double loss,
                          double rate, double samples_per_second, double seconds_left) {
  constexpr int cells = 24;
  const double done = (static_cast<double>(epoch) + static_cast<double>(step) / static_cast<double>(steps)) /
                      static_cast<double>(options.epochs);
  const int full = static_cast<int>(cells * done);
  const std::string bar =
      std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(cells - full), '.');
  std::fprintf(stderr, "\r[%s] epoch %lld/%lld  step %lld/%lld  loss %.4g  rate %.2g  %.3g samples/s  %.0f s left   ",
               bar.c_str(), static_cast<long long>(epoch + 1), static_cast<long long>(options.epochs),
               static_cast<long long>(step), static_cast<long long>(steps), loss, rate, samples_per_second,
               seconds_left);
  if (done >= 1) std::fputc('\n', stderr);
}

/// The first parameter tensor that holds a number which is not finite, in words. Collective over the trainer's mesh:
/// ranks may hold other values.
template <class AnyTrainer>
std::string words_about_parameters(const AnyTrainer& trainer) {
  using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
  const std::vector<typename Held::value_type> own = host_copy(trainer.parameters().view());
  const std::vector<unsigned short> tensors = tensors_of_values(trainer.parameters());
  const auto& shapes = Held::graph().parameters;
  int first = shapes.size();
  const auto look = [&](index_t begin, index_t end, auto tensor_of) {
    for (index_t i = begin; i < end; ++i)
      if (!std::isfinite(static_cast<double>(own[static_cast<std::size_t>(i)]))) first = std::min(first, tensor_of(i));
  };
  look(0, static_cast<index_t>(tensors.size()), [&](index_t i) { return int{tensors[static_cast<std::size_t>(i)]}; });
  for (int p = 0; p < shapes.size(); ++p) {
    if (!shapes[p].buffer) continue;  // each rank has them, behind what is trained
    const index_t begin = static_cast<index_t>(tensors.size()) + shapes[p].offset - Held::graph().parameter_count;
    look(begin, begin + shapes[p].count, [p](index_t) { return p; });
  }
  trainer.mesh().world().all_reduce(&first, 1, ReduceOp::min);
  if (first == shapes.size()) return "all parameters are finite after it: look at the batch";
  return "parameter '" + parameter_names<typename Held::model_type>()[static_cast<std::size_t>(first)] +
         "' is the first that is not finite after it";
}

template <class Held, class Loss, class Data>
double held_out_loss(const Loss& loss, const Data& data, const Held& parameters) {
  double sum = 0;
  for (index_t i = 0; i < static_cast<index_t>(data.size()); ++i) {
    const auto& batch = data[static_cast<std::size_t>(i)];
    sum += evaluate(loss, infer(parameters, batch.x), batch.y, batch.weight);
  }
  return sum / static_cast<double>(data.size());
}

}  // namespace detail

/// Trains; returns all epochs' reports. The held-out loss is that of the averaged parameters where the trainer keeps an
/// average. With checkpoints it goes on from the newest whole one in their folder, and on the same mesh ends with the
/// bits of a run that nothing has ended. Throws CollectiveError where the loss of a step is not finite, with the step,
/// the first parameter that is not, and the last checkpoint; nothing but the reports so far is written then.
template <class AnyTrainer, class Loss, class Data, class HeldOut = detail::NothingHeldOut>
FitHistory fit(AnyTrainer& trainer, const Loss& loss, const Data& data, const FitOptions& options = {},
               const HeldOut& held_out = {}) {
  using Clock = std::chrono::steady_clock;
  const auto steps = static_cast<index_t>(data.size());
  if (steps < 1 || options.epochs < 1 || options.evaluate_every < 1)
    throw CollectiveError("fit: " + std::to_string(steps) + " batches, " + std::to_string(options.epochs) +
                          " epochs, evaluated every " + std::to_string(options.evaluate_every) + ": give 1 or more");
  const Communicator& world = trainer.mesh().world();
  const bool is_root = world.rank() == 0, shows = is_root && detail::shows_progress(options.progress);
  std::optional<detail::FitKeeper> keeper;
  detail::FitPosition at;
  if (!options.checkpoints.folder.empty()) {
    keeper.emplace(options.checkpoints, world,
                   nlohmann::ordered_json{{"batches", steps}, {"seed", options.seed}, {"shuffle", options.shuffle}});
    at = keeper->resume(trainer);
  }
  std::ofstream metrics;
  const auto write_metrics = [&](const EpochReport& report) {
    if (!metrics.is_open()) return;
    metrics << detail::json_of(report).dump() << std::endl;  // a run that ends early has all lines so far
    if (!metrics) throw Error("'" + options.metrics.string() + "' cannot be written: look at its folder's space");
  };
  agree(world, [&] {
    if (!is_root || options.metrics.empty()) return;
    metrics.open(options.metrics);
    if (!metrics) throw Error("'" + options.metrics.string() + "' cannot be written: look at its folder");
    for (const EpochReport& report : at.history) write_metrics(report);
  });
  const auto result = [&](bool stopped) {
    FitHistory history;
    history.assign(at.history.begin(), at.history.end());
    history.stopped = stopped;
    return history;
  };
  const Clock::time_point start = Clock::now();
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const index_t resumed = at.epoch * steps + at.batch;
  index_t taken = trainer.optimizer_state().steps();
  while (at.epoch < options.epochs) {
    const Clock::time_point begin = Clock::now();
    std::vector<index_t> order = detail::own_order(steps);
    if (options.shuffle) detail::shuffle(order, options.seed, at.epoch);
    index_t samples = 0;  // of this run
    while (at.batch < steps) {
      const index_t number = order[static_cast<std::size_t>(at.batch)];
      const auto& batch = data[static_cast<std::size_t>(number)];
      if constexpr (requires { data.prefetch(std::size_t{}); })
        if (at.batch + 1 < steps)
          data.prefetch(static_cast<std::size_t>(order[static_cast<std::size_t>(at.batch + 1)]));
      const double rate = trainer.learning_rate();
      const double value = trainer.step(loss, batch.x, batch.y, batch.weight).item();
      ++taken;
      ++at.batch;
      if (!std::isfinite(value))
        throw CollectiveError("fit: the loss of step " + std::to_string(taken) + " (epoch " +
                              std::to_string(at.epoch + 1) + ", batch " + std::to_string(number) + ") is " +
                              std::to_string(value) + "; " + detail::words_about_parameters(trainer) +
                              (keeper ? "; " + keeper->words_about_newest() : ""));
      at.loss += value / static_cast<double>(steps);
      samples += batch.x.extent(0);
      const double past = since(start), done = static_cast<double>(at.epoch * steps + at.batch);
      if (shows)
        detail::show_progress(
            options, at.epoch, at.batch, steps, value, rate, static_cast<double>(samples) / since(begin),
            past / (done - static_cast<double>(resumed)) * (static_cast<double>(options.epochs * steps) - done));
      if (at.batch == steps) {
        EpochReport report{at.epoch + 1, taken, at.loss,
                           std::nullopt, rate,  static_cast<double>(samples) / since(begin)};
        if (held_out.size() > 0 && (report.epoch % options.evaluate_every == 0 || report.epoch == options.epochs)) {
          if constexpr (!std::is_same_v<HeldOut, detail::NothingHeldOut>)
            report.held_out = trainer.optimizer_state().average() != nullptr
                                  ? detail::held_out_loss(loss, held_out, trainer.averaged_parameters())
                                  : detail::held_out_loss(loss, held_out, trainer.parameters());
        }
        at.history.push_back(report);
        at = {at.epoch + 1, 0, 0, std::move(at.history)};
        agree(world, [&] { write_metrics(at.history.back()); });
      }
      if (keeper && keeper->after_step(trainer, at, taken)) return result(true);
      if (at.batch == 0) break;
    }
    if (options.after_epoch && !options.after_epoch(at.history.back())) break;
  }
  if (keeper) keeper->finish(trainer, at);
  agree(world, [&] {
    if (is_root && !options.plot.empty()) detail::write_loss_plot(options.plot, at.history);
  });
  return result(false);
}

}  // namespace halogen
