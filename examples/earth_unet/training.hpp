// What the example does, in float or double: reads the Earth, trains, scores, draws, and prints one line of results.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <halogen/io/checkpoint.hpp>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "canvas.hpp"
#include "held_out.hpp"
#include "options.hpp"
#include "pictures.hpp"
#include "program.hpp"
#include "sample.hpp"
#include "score.hpp"

namespace earth_unet {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Net = hg::UNet<7, 3, 16, Globe>;
using Mesh = hg::Mesh<"height", "width">;
template <class T, int Channels>
using Field = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

template <int Channels, class T>
Field<T, Channels> to_field(const hg::DeviceMesh<Mesh>& mesh, earth::Grid grid, const earth::Planes& planes) {
  return hg::from_local<Field<T, Channels>>(mesh, {1, Channels, grid.height, grid.width},  // (1, C, H/h, W/w)
                                            std::vector<T>(planes.values.begin(), planes.values.end()));
}

template <class T>
earth::Planes to_planes(const Field<T, 3>& field, earth::Box box) {
  earth::Planes planes(3, box);
  const std::vector<T> values = field.to_host();
  std::transform(values.begin(), values.end(), planes.values.begin(),
                 [](T value) { return static_cast<float>(value); });
  return planes;
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

inline double peak_resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

inline double over_ranks(const hg::Communicator& world, double value, hg::ReduceOp op) {
  world.all_reduce(&value, 1, op);
  return value;
}

/// `value` is the same on every rank, so that all of them end here.
inline void require_finite(double value, const std::string& what, double learning_rate) {
  if (std::isfinite(value)) return;
  std::ostringstream rate;
  rate << learning_rate;
  throw hg::CollectiveError(what + " is not finite: use a smaller --learning-rate than " + rate.str());
}

/// Small pictures of the Earth, added up over ranks; rank 0 draws.
inline void draw(const earth::Options& options, const earth::Ranks& ranks, const hg::Communicator& world,
                 const earth::Sample& sample, const earth::Planes& predicted, const Field<float, 1>& cuts, double ratio,
                 const std::vector<double>& losses, const std::vector<double>& ratios) {
  const auto picture = [&](earth::Box region, const earth::Planes& field) {
    earth::Canvas canvas(region);
    canvas.add(field);
    canvas.reduce(ranks);
    return canvas.image();
  };
  const auto comparison = [&](earth::Box region) {
    return earth::Comparison{picture(region, sample.baseline), picture(region, predicted),
                             picture(region, sample.truth)};
  };
  const earth::Comparison sector = comparison(earth::held_out_box(options.grid));
  const earth::Comparison closeup = comparison(earth::closeup_box(options.grid));
  const earth::Image globe = picture(earth::whole(options.grid), predicted);
  const auto first = [&](int d) {
    return std::vector<std::int64_t>(cuts.cut(d).bounds.begin(), cuts.cut(d).bounds.end() - 1);
  };
  hg::agree(world, [&] {
    if (world.rank() != 0) return;
    earth::draw_held_out(sector, closeup, ratio).write_png(options.output / "held_out.png");
    earth::draw_mesh(globe, options.grid, first(2), first(3)).write_png(options.output / "earth_mesh.png");
    earth::draw_curves(losses, ratios).write_png(options.output / "loss.png");
  });
}

/// A bar, or a line at the first step, every tenth and the last.
inline void show(int step, int steps, bool bar, double loss, double ratio, double seconds_per_step) {
  char words[160];
  std::snprintf(words, sizeof words, "step %d/%d  loss %.4f  held-out ratio %.3f  %.2f s/step", step, steps, loss,
                ratio, seconds_per_step);
  if (bar)
    hg::show_progress(step, steps, words);
  else if (step == 1 || step % 10 == 0 || step == steps)
    std::cout << words << std::endl;
}

template <class T>
void run(const hg::Environment& env, const earth::Options& options) {
  const hg::Communicator& world = env.world();
  const bool root = env.is_root();
  auto mesh = hg::device_mesh<Mesh>(world, {options.mesh_height, options.mesh_width});
  const std::array<hg::index_t, 4> extents{1, 7, options.grid.height, options.grid.width};
  // Planned before anything is read, so that a mesh that does not fit ends here, on all ranks alike.
  const hg::Layout layout = hg::layout_of<Field<T, 7>>(Net{}, mesh, extents);
  const hg::Layout single = hg::layout_of<Field<T, 7>>(Net{}, hg::dry_mesh<Mesh>({1, 1}), extents);
  const hg::Interval rows = layout.owned(0, 1), columns = layout.owned(0, 2);  // 0 is depth
  const earth::Box box{rows.begin, rows.end, columns.begin, columns.end};
  if (root)
    std::cout << env.describe() << " mesh=" << layout.decomposition().text() << " grid=" << options.grid.height << "x"
              << options.grid.width << " piece=7x" << box.height() << "x" << box.width() << "\nreading the Earth..."
              << std::endl;

  const earth::Ranks ranks = earth::ranks_of(world);
  hg::agree(world, [&] {
    if (root) earth::prepare_output(options.output);
  });
  const earth::Sample sample = earth::load_sample(options.data, options.grid, box, ranks);
  const auto image = to_field<7, T>(mesh, options.grid, sample.input);
  const auto label = to_field<3, T>(mesh, options.grid, sample.label);
  const auto weight = to_field<1, T>(mesh, options.grid, sample.weight);

  hg::Trainer<Net, hg::AdamW, Mesh, T> trainer(Net{}, hg::AdamW{.lr = options.learning_rate}, mesh,
                                               {.seed = options.seed, .memory_limit = options.memory_limit});
  std::vector<double> losses, ratios;
  hg::CommStatistics per_step;
  double stepping = 0;
  std::optional<hg::Layout> used;  // with a memory limit, not the one that was planned
  {
    const bool bar = hg::shows_progress(earth::progress_of(options));
    double ratio = 0;  // the last one that was measured
    for (int step = 1; step <= options.steps; ++step) {
      const double start = seconds();
      const hg::CommStatistics before = hg::comm_stats();
      auto result = trainer.step(hg::mse, image, label, weight);
      losses.push_back(result.item());
      if (!used) used.emplace(result.layout());
      per_step = hg::comm_stats() - before;
      if (step > 1) stepping += seconds() - start;  // the first step also prepares buffers and exchanges
      require_finite(losses.back(), "the loss at step " + std::to_string(step), options.learning_rate);
      const bool measure = step == 1 || step % 5 == 0;
      if (measure) ratio = earth::score(to_planes(result.prediction(), box), sample, ranks).ratio();
      ratios.push_back(measure ? ratio : std::numeric_limits<double>::quiet_NaN());
      if (root)
        show(step, options.steps, bar, losses.back(), ratio, step > 1 ? stepping / (step - 1) : seconds() - start);
    }
  }

  const earth::Planes output = to_planes(trainer.predict(image), box);
  const earth::Score score = earth::score(output, sample, ranks);
  require_finite(score.rmse, "the prediction after the last step", options.learning_rate);
  const auto cuts = Field<float, 1>(mesh, {1, 1, options.grid.height, options.grid.width});
  draw(options, ranks, world, sample, earth::predicted_field(output, sample), cuts, score.ratio(), losses, ratios);
  hg::save_parameters(options.output / "weights.safetensors", trainer.parameters(), world);

  const auto sum = [&](double value) { return over_ranks(world, value, hg::ReduceOp::sum); };
  const auto most = [&](double value) { return over_ranks(world, value, hg::ReduceOp::max); };
  const double messages = sum(static_cast<double>(per_step.messages.count)),
               bytes = sum(static_cast<double>(per_step.messages.bytes));
  const double planned_messages = sum(static_cast<double>(used->traffic().messages));
  const double planned_bytes = sum(static_cast<double>(used->traffic().bytes));
  const double activation = most(mib(used->memory().total())), resident = most(peak_resident_mib());
  if (!root) return;
  if (options.memory_limit > 0) {
    const hg::ChosenPlan* chosen = used->chosen();
    std::printf(
        "memory limit %.2f MiB per rank: %d launches run again, %.1f %% more work; activations %.2f MiB, %.2f with all "
        "kept\n",
        mib(options.memory_limit), chosen == nullptr ? 0 : chosen->again(),
        chosen == nullptr ? 0. : 100 * chosen->more_work, mib(used->memory().total()), mib(layout.memory().total()));
  }
  std::printf("activations: %.2f MiB per rank, %.2f MiB on one rank; peak resident memory %.0f MiB per rank\n",
              activation, mib(single.memory().total()), resident);
  std::printf(
      "halo exchange per step, all ranks: %.0f messages (formula %.0f), %.0f bytes (formula %.0f); "
      "per rank also %lld all_gathers and %lld all_reduces of %lld bytes\n",
      messages, planned_messages, bytes, planned_bytes, static_cast<long long>(per_step.all_gathers.count),
      static_cast<long long>(per_step.all_reduces.count),
      static_cast<long long>(per_step.all_gathers.bytes + per_step.all_reduces.bytes));
  std::printf("written: %s (held_out.png, earth_mesh.png, loss.png, weights.safetensors)\n", options.output.c_str());
  std::printf(
      "result: mesh=%dx%d held_out_ratio=%.4f held_out_rmse=%.5f bilinear_rmse=%.5f loss=%.17g seconds_per_step=%.3f "
      "activation_mib_per_rank=%.2f activation_mib_single=%.2f messages_per_step=%.0f bytes_per_step=%.0f\n",
      options.mesh_height, options.mesh_width, score.ratio(), score.rmse, score.baseline_rmse,
      losses.empty() ? std::numeric_limits<double>::quiet_NaN() : losses.back(),
      options.steps > 1 ? stepping / (options.steps - 1) : 0.0, activation, mib(single.memory().total()), messages,
      bytes);
}

// Either precision takes a minute to compile: a file each.
extern template void run<float>(const hg::Environment& env, const earth::Options& options);
extern template void run<double>(const hg::Environment& env, const earth::Options& options);

}  // namespace earth_unet
