// fit(trainer, loss, data, options): a whole training run. Epochs over batches in an order drawn by seed and epoch, the
// loss of what is held out by averaged weights, a progress bar, metrics as JSON lines, an early end.
//
//   data: anything with size() and [i], such as std::vector<hg::Batch<X, Y>>, or hg::batches(count, make): make(i)
//   returns hg::Batch{x, y} or hg::Batch{x, y, weight}, each field cut as the mesh wants it, alike on all ranks; what
//   has prefetch(i) is told the next one while a step runs, what has all_statistics() (FieldDataset) has them in the
//   run's checkpoints
//
//   auto data = hg::batches(days, [&](hg::index_t day) { return hg::Batch{load(day, "now"), load(day, "later")}; });
//   hg::fit(trainer, hg::huber, data, {.epochs = 12, .metrics = "run.jsonl"}, held_out);
//
//   collectives: those of the steps, and what FitOptions says of its calls; files are written by rank 0, and a failure
//   reaches all ranks as one sentence.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/philox.hpp"
#include "halogen/io/fit/fit_options.hpp"
#include "halogen/train/evaluate_loss.hpp"
#include "halogen/train/not_finite.hpp"
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
inline void shuffle(std::vector<index_t>& order, std::uint64_t seed, index_t epoch,
                    RandomPurpose purpose = RandomPurpose::batches) {
  for (auto i = static_cast<index_t>(order.size()) - 1; i > 0; --i) {
    constexpr std::uint32_t stream = 0x0de7;  // as in all versions: runs that are resumed keep their order
    const auto bits =
        random_bits({seed, static_cast<std::uint64_t>(epoch), stream}, static_cast<std::uint64_t>(i), purpose);
    const double unit = unit_of(bits[0], bits[1]);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(unit * static_cast<double>(i + 1))]);
  }
}

/// The loss of all points of all batches (LossTotal).
template <class Held, class Loss, class Data>
double held_out_loss(const Loss& loss, const Data& data, const Held& parameters) {
  std::vector<LossTotal> totals;
  for (index_t i = 0; i < static_cast<index_t>(data.size()); ++i) {
    const auto& batch = data[static_cast<std::size_t>(i)];
    add_totals(totals, loss, infer(parameters, batch.x), batch.y, batch.weight, batch.x.extent(0));
  }
  double sum = 0;
  for (const LossTotal& total : totals) sum += total.value();
  return sum;
}

/// A call of fit.
template <class AnyTrainer, class Loss, class Data, class HeldOut>
class FitRun {
 public:
  FitRun(AnyTrainer& trainer, const Loss& loss, const Data& data, const FitOptions& options, const HeldOut& held_out)
      : trainer_(trainer),
        loss_(loss),
        data_(data),
        options_(options),
        held_out_(held_out),
        world_(trainer.mesh().world()),
        batches_(static_cast<index_t>(data.size())),
        shows_(world_.rank() == 0 && shows_progress(options.progress)) {
    check_same_options(world_, options, batches_, static_cast<index_t>(held_out.size()));
    world_.all_reduce(calls_, 2, ReduceOp::max);
    if (batches_ < 1 || options.epochs < 1 || options.steps < 0 || options.evaluate_every < 1)
      throw CollectiveError("fit: " + std::to_string(batches_) + " batches, " + std::to_string(options.epochs) +
                            " epochs, " + std::to_string(options.steps) + " steps, evaluated every " +
                            std::to_string(options.evaluate_every) + ": give 1 or more, of steps 0 or more");
    constexpr index_t most = std::numeric_limits<index_t>::max();
    all_ = options.steps > 0 ? options.steps : options.epochs > most / batches_ ? most : options.epochs * batches_;
    resume();
    if (done() < all_) at_.part.reset();  // the epoch goes on
    open_metrics();
    resumed_ = done();
    taken_ = trainer.optimizer_state().steps();
  }

  FitHistory run() {
    bool goes_on = true;
    while (goes_on && done() < all_) {
      epoch_begin_ = Clock::now(), samples_ = 0;
      const std::vector<index_t> order = order_of(at_.epoch);
      do {
        goes_on = step(order);
        if (keeper_ && keeper_->after_step(trainer_, at_, taken_)) return history(true);
      } while (goes_on && at_.batch != 0 && done() < all_);
      if (at_.batch == 0 && !all_go_on(calls_[1], options_.after_epoch, at_.history.back())) goes_on = false;
    }
    if (keeper_) keeper_->finish(trainer_, at_);
    return history(false);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  /// Batches since the run's very beginning.
  index_t done() const { return at_.epoch * batches_ + at_.batch; }

  /// Whether all ranks that have this call say so; is_called: whether one has.
  template <class Call, class Report>
  bool all_go_on(int is_called, const Call& call, const Report& report) const {
    return is_called == 0 || all_agree(world_, [&] { return !call || call(report); });
  }

  void resume() {
    if (options_.checkpoints.folder.empty()) return;
    nlohmann::ordered_json order{{"batches", batches_}, {"seed", options_.seed}, {"shuffle", options_.shuffle}};
    nlohmann::ordered_json statistics;
    if constexpr (requires { data_.all_statistics(); }) statistics = data_.all_statistics();
    keeper_.emplace(options_.checkpoints, world_, std::move(order), std::move(statistics));
    at_ = keeper_->resume(trainer_);
  }

  void open_metrics() {
    agree(world_, [&] {
      if (world_.rank() != 0 || options_.metrics.empty()) return;
      metrics_.open(options_.metrics);
      if (!metrics_)
        throw Error("cannot write '" + options_.metrics.string() + "': " + words_of_system(errno, options_.metrics));
      for (const EpochReport& report : at_.history) write_metrics(report);
      if (at_.part) write_metrics(*at_.part);
    });
  }
  void write_metrics(const EpochReport& report) {
    if (!metrics_.is_open()) return;
    metrics_ << json_text(json_of(report)) << std::endl;  // a run that ends early has all lines so far
    if (!metrics_)
      throw Error("cannot write '" + options_.metrics.string() + "': " + words_of_system(errno, options_.metrics));
  }

  std::vector<index_t> order_of(index_t epoch) const {
    std::vector<index_t> order = own_order(batches_);
    if (options_.shuffle) shuffle(order, options_.seed, epoch);
    return order;
  }
  /// Tells the data which batch is the next, that of the next epoch too.
  void prefetch(const std::vector<index_t>& order) const {
    if constexpr (requires { data_.prefetch(std::size_t{}); }) {
      if (done() + 1 >= all_) return;
      const bool is_last = at_.batch + 1 == batches_;
      data_.prefetch(static_cast<std::size_t>(is_last ? order_of(at_.epoch + 1).front()
                                                      : order[static_cast<std::size_t>(at_.batch + 1)]));
    }
  }

  /// Whether the run goes on.
  bool step(const std::vector<index_t>& order) {
    const index_t number = order[static_cast<std::size_t>(at_.batch)];
    const auto& batch = data_[static_cast<std::size_t>(number)];
    prefetch(order);
    rate_ = trainer_.learning_rate();
    const double value = trainer_.step(loss_, batch.x, batch.y, batch.weight).item();
    const index_t epoch = at_.epoch + 1;
    ++taken_, ++at_.batch;
    if (!std::isfinite(value))
      throw CollectiveError("fit: the loss of step " + std::to_string(taken_) + " (epoch " + std::to_string(epoch) +
                            ", batch " + std::to_string(number) + ") is " +
                            (std::isnan(value) ? "nan" : number_text(value)) +
                            words_about_fields(batch.x, batch.y, batch.weight) + "; " +
                            words_about_parameters(trainer_) + (keeper_ ? "; " + keeper_->words_about_newest() : ""));
    at_.loss += value / static_cast<double>(batches_);
    samples_ += batch.x.extent(0);
    if (shows_) show(value);
    const bool goes_on = all_go_on(calls_[0], options_.after_step, StepReport{taken_, epoch, value, rate_});
    if (at_.batch == batches_ || done() == all_ || !goes_on) end_epoch();
    return goes_on;
  }

  void show(double value) const {
    const double past = since(start_), of_this_run = static_cast<double>(done() - resumed_);
    const auto whole = [](index_t number) { return static_cast<long long>(number); };
    char words[256];
    std::snprintf(words, sizeof words,
                  "epoch %lld/%lld  step %lld/%lld  loss %.4g  rate %.2g  %.3g samples/s  %.0f s left",
                  whole(at_.epoch + 1), whole(ceil_div(all_, batches_)), whole(at_.batch), whole(batches_), value,
                  rate_, samples_per_second(), past / of_this_run * static_cast<double>(all_ - done()));
    show_progress(done(), all_, words);
  }
  double samples_per_second() const { return static_cast<double>(samples_) / since(epoch_begin_); }

  /// One that `steps` or `after_step` ends in its middle is reported, but a run that goes on from here is in it still.
  void end_epoch() {
    const double loss = at_.loss * (static_cast<double>(batches_) / static_cast<double>(at_.batch));
    EpochReport report{at_.epoch + 1, taken_, loss, std::nullopt, rate_, samples_per_second()};
    if constexpr (!std::is_same_v<HeldOut, NothingHeldOut>)
      if (held_out_.size() > 0 && (report.epoch % options_.evaluate_every == 0 || done() == all_))
        report.held_out = trainer_.optimizer_state().average() != nullptr
                              ? held_out_loss(loss_, held_out_, trainer_.averaged_parameters())
                              : held_out_loss(loss_, held_out_, trainer_.parameters());
    agree(world_, [&] { write_metrics(report); });
    if (at_.batch < batches_) {
      at_.part = report;
      return;
    }
    at_.history.push_back(report);
    at_ = {at_.epoch + 1, 0, 0, std::move(at_.history)};
  }

  FitHistory history(bool stopped) const {
    FitHistory all;
    all.assign(at_.history.begin(), at_.history.end());
    if (at_.part) all.push_back(*at_.part);
    all.stopped = stopped;
    return all;
  }

  AnyTrainer& trainer_;
  const Loss& loss_;
  const Data& data_;
  const FitOptions& options_;
  const HeldOut& held_out_;
  const Communicator& world_;
  index_t batches_, all_ = 0, resumed_ = 0, taken_ = 0, samples_ = 0;  ///< samples_: of this run's part of the epoch
  int calls_[2] = {options_.after_step ? 1 : 0, options_.after_epoch ? 1 : 0};  ///< whether a rank has them
  bool shows_;
  double rate_ = 0;
  std::optional<FitKeeper> keeper_;
  FitPosition at_;
  std::ofstream metrics_;
  Clock::time_point start_ = Clock::now(), epoch_begin_ = start_;
};

}  // namespace detail

/// Trains; returns all epochs' reports. The held-out loss is that of the averaged parameters where the trainer keeps an
/// average. With checkpoints it goes on from the newest whole one in their folder, and on the same mesh ends with the
/// bits of a run that nothing has ended. Throws CollectiveError where the loss of a step is not finite, with the step,
/// the first parameter that is not, and the last checkpoint; nothing but the reports so far is written then.
template <class AnyTrainer, class Loss, class Data, class HeldOut = detail::NothingHeldOut>
FitHistory fit(AnyTrainer& trainer, const Loss& loss, const Data& data, const FitOptions& options = {},
               const HeldOut& held_out = {}) {
  return detail::FitRun<AnyTrainer, Loss, Data, HeldOut>(trainer, loss, data, options, held_out).run();
}

}  // namespace halogen
