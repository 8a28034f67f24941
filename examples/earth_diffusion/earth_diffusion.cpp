// The relief of the Earth at fine resolution, drawn rather than guessed: a diffusion model learns it from the coarse
// relief and the coasts, and draws an ensemble whose members lie along a dimension of the mesh.
//
//   mpirun -n 4 earth_diffusion --mesh 2x2          # ./dev demo earth_diffusion does this, data included
//
// A U-Net of the same width learns the same task beside it. The sector 60 E - 150 E is never trained on, and scored.
#include <cstdio>
#include <halogen/halogen.hpp>
#include <halogen/io.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "canvas.hpp"
#include "fields.hpp"
#include "options.hpp"
#include "pictures.hpp"

namespace earth_diffusion {

constexpr int width = 16, conditions = 4, sampler_steps = 16, steps_an_epoch = 20;
using Guess = hg::UNet<conditions, 3, width, Globe>;
using Net = hg::DiffusionUNet<3, 3, width, Globe, conditions>;

/// One mesh with its pieces of the Earth. `maps`: of each field.
struct Task {
  hg::DeviceMesh<Mesh> mesh;
  earth::Sample sample;
  Maps<conditions> input;
  Maps<3> label;
  Maps<1> weight, held_out;

  Task(const hg::DeviceMesh<Mesh>& on, const earth::Options& options, const earth::Ranks& ranks, hg::index_t maps)
      : mesh(on),
        sample(
            earth::load_sample(options.data, options.grid, rows_of(on, options.grid), ranks, earth::Subject::relief)),
        input(to_field<Maps<conditions>>(on, options.grid, sample.input, maps)),
        label(to_field<Maps<3>>(on, options.grid, sample.label, maps)),
        weight(to_field<Maps<1>>(on, options.grid, sample.weight, maps)),
        held_out(to_field<Maps<1>>(on, options.grid, held_out_weight(options.grid, sample.box), maps)) {}
};

/// Trains with a bar on a terminal, else a line now and then.
template <class Trainer, class Make>
void train(Trainer& trainer, const earth::Options& options, const char* name, const Make& make, bool root) {
  const hg::index_t steps = std::min(options.steps, steps_an_epoch), epochs = (options.steps + steps - 1) / steps;
  hg::FitOptions fit{.epochs = epochs, .plot = options.output / (std::string(name) + "_loss.svg")};
  if (options.progress == earth::ProgressStyle::lines) fit.progress = hg::Progress::none;
  if (options.progress == earth::ProgressStyle::bar) fit.progress = hg::Progress::bar;
  fit.after_epoch = [&](const hg::EpochReport& report) {
    if (root && (report.epoch % 5 == 0 || report.epoch == epochs))
      std::cout << name << ": step " << report.step << " of " << steps * epochs << ", loss " << report.loss << ", "
                << report.samples_per_second << " maps/s" << std::endl;
    return true;
  };
  hg::fit(trainer, hg::mse, hg::batches(steps, make), fit);
}

struct Panel {
  std::string title;
  earth::Image image;
};

/// Panels in rows of five.
earth::Image arranged(const std::vector<Panel>& panels) {
  constexpr int columns = 5, margin = 12, heading = 28;
  const int wide = std::max(1, 240 / panels[0].image.width()), across = panels[0].image.width() * wide + margin,
            down = panels[0].image.height() * wide + heading + margin;
  const int rows = (static_cast<int>(panels.size()) + columns - 1) / columns;
  earth::Image all(rows * down + margin, columns * across + margin);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const int y = margin + static_cast<int>(i) / columns * down, x = margin + static_cast<int>(i) % columns * across;
    all.text(y, x, panels[i].title, earth::colour::ink);
    all.paste(panels[i].image, y + heading, x, wide);
  }
  return all;
}

void run(const hg::Environment& env, const earth::Options& options) {
  const hg::Communicator& world = env.world();
  const bool root = env.is_root();
  const earth::Ranks ranks{[&](std::span<double> sums) { world.all_reduce(sums.data(), sums.size()); },
                           [&](const std::function<void()>& action) { hg::agree(world, action); }};
  hg::agree(world, [&] {
    if (root) earth::prepare_output(options.output);
  });
  const auto mesh = hg::device_mesh<Mesh>(world, {options.mesh_height, options.mesh_width});
  const auto one_map = hg::device_mesh<Mesh>(world, {1, world.size()});
  if (root)
    std::cout << env.describe() << " mesh=" << options.mesh_height << "x" << options.mesh_width
              << " grid=" << options.grid.height << "x" << options.grid.width << " members=" << options.members
              << "\nreading the Earth..." << std::endl;

  const Task guess(one_map, options, ranks, 1);
  hg::Trainer unet(Guess{}, hg::AdamW{.lr = options.learning_rate}, one_map, {.seed = options.seed});
  train(
      unet, options, "unet",
      [&](hg::index_t) {
        return hg::Batch{guess.input, guess.label, guess.weight};
      },
      root);
  const Maps<3> guessed = unet.predict(guess.input);
  const double guess_rmse = std::sqrt(hg::evaluate(hg::mse, guessed, guess.label, guess.held_out)),
               guess_crps = hg::evaluate(hg::l1, guessed, guess.label, guess.held_out);

  const hg::EDM edm{.sigma_data = 1};  // labels are in units of their deviation
  const Task noisy(mesh, options, ranks, 2 * options.mesh_height);
  hg::Trainer trainer(Net{}, hg::AdamW{.lr = options.learning_rate, .schedule = hg::cosine_rate(options.steps)}, mesh,
                      {.seed = options.seed, .average = 0.98});
  train(
      trainer, options, "diffusion",
      [&](hg::index_t) {
        const auto step = static_cast<std::uint64_t>(trainer.optimizer_state().steps());
        const auto batch = hg::noised(edm, noisy.label, {.seed = options.seed, .step = step});
        return hg::Batch{hg::Inputs{batch.image, noisy.input, batch.level}, batch.target, noisy.weight};
      },
      root);

  if (root) std::cout << "drawing " << options.members << " members..." << std::endl;
  const auto given = to_field<Maps<conditions>>(mesh, options.grid, noisy.sample.input, options.members);
  const auto parameters = trainer.averaged_parameters();
  hg::Network network(parameters);
  const Maps<3> members =
      hg::sample_heun(edm, Maps<3>(mesh, {options.members, 3, options.grid.height, options.grid.width}),
                      {.seed = options.seed + 1}, sampler_steps, [&](const Maps<3>& image, const auto& level) {
                        return network.infer(parameters, hg::Inputs{image, given, level});
                      });
  const auto truth = to_field<Map<3>>(mesh, options.grid, noisy.sample.label);
  const auto weight = to_field<Map<1>>(mesh, options.grid, held_out_weight(options.grid, noisy.sample.box));
  const hg::EnsembleScores scores = hg::score_ensemble(members, hg::expand<0>(truth), hg::expand<0>(weight));
  if (!std::isfinite(scores.crps))
    throw hg::CollectiveError("the ensemble is not finite: use a smaller --learning-rate");

  const Map<3> mean = hg::cast<float>(hg::mean<0>(members, hg::keep_dimensions));
  const Map<3> spread =
      hg::cast<float>(hg::sqrt(hg::mean<0>(hg::square(members - hg::expand<0>(mean)), hg::keep_dimensions)));
  std::vector<Panel> panels;
  const auto picture = [&](std::string title, bool mine, const auto& planes) {
    earth::Canvas canvas(earth::closeup_box(options.grid));
    if (mine) canvas.add(planes());
    canvas.reduce(ranks);
    panels.push_back({std::move(title), canvas.image()});
  };
  const auto relief = [&](const auto& field, hg::index_t number = 0) {
    return earth::predicted_field(to_planes(field, noisy.sample.box, number), noisy.sample);
  };
  const bool first = mesh.coordinate(0) == 0;
  picture("coarse", first, [&] { return noisy.sample.baseline; });
  picture("true", first, [&] { return noisy.sample.truth; });
  picture("U-Net", true, [&] { return earth::predicted_field(to_planes(guessed, guess.sample.box), guess.sample); });
  picture("mean of members", first, [&] { return relief(mean); });
  picture("spread", first, [&] {
    earth::Planes planes = to_planes(spread, noisy.sample.box);
    for (float& value : planes.values) value /= 2;  // white: two deviations of the fine relief
    return planes;
  });
  const hg::Interval own = members.owned(0);
  for (hg::index_t m = 0; m < std::min(options.members, 5); ++m)
    picture("member " + std::to_string(m + 1), own.begin <= m && m < own.end,
            [&] { return relief(members, m - own.begin); });
  hg::agree(world, [&] {
    if (root) arranged(panels).write_png(options.output / "members.png");
  });
  hg::save_parameters(options.output / "weights.safetensors", parameters, world);
  if (!root) return;
  std::printf("held out, in deviations of the fine relief; of the U-Net CRPS is the mean absolute error\n");
  std::printf("  U-Net     rmse %.4f  CRPS %.4f\n", guess_rmse, guess_crps);
  std::printf("  ensemble  rmse %.4f  CRPS %.4f  spread/skill %.3f\n", scores.rmse, scores.crps, scores.spread_skill());
  std::printf("written: %s (members.png, unet_loss.svg, diffusion_loss.svg, weights.safetensors)\n",
              options.output.c_str());
  std::printf(
      "result: mesh=%dx%d members=%d unet_rmse=%.5f unet_crps=%.5f ensemble_rmse=%.5f ensemble_crps=%.5f "
      "spread_skill=%.4f\n",
      options.mesh_height, options.mesh_width, options.members, guess_rmse, guess_crps, scores.rmse, scores.crps,
      scores.spread_skill());
}

}  // namespace earth_diffusion

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const earth::Program program{.name = "earth_diffusion",
                               .about =
                                   "Draws an ensemble of the Earth's fine relief by a diffusion model, cut over a "
                                   "mesh of MPI ranks",
                               .mesh = "ranks along the members x ranks along the rows",
                               .grid = "1",
                               .steps = "300",
                               .learning_rate = "2e-3",
                               .members = "8"};
  const earth::CommandLine command = earth::parse_command_line(argc, argv, env.world().size(), program);
  if (!command.options) {
    if (env.is_root()) (command.exit_status == 0 ? std::cout : std::cerr) << command.message << std::endl;
    return command.exit_status;
  }
  try {
    earth_diffusion::run(env, *command.options);
  } catch (const hg::CollectiveError& error) {
    if (env.is_root()) std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
