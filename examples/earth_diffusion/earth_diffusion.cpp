// The relief of the Earth at fine resolution, drawn rather than guessed: a diffusion model learns it from the coarse
// relief and the coasts, and draws an ensemble whose members lie along a dimension of the mesh.
//
//   mpirun -n 4 earth_diffusion --mesh 2x2          # ./dev demo earth_diffusion does this, data included
//
// A U-Net of the same width learns the same task beside it. The sector 60 E - 150 E is never trained on, and scored.
#include <cstdio>
#include <halogen/files.hpp>
#include <halogen/halogen.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "fields.hpp"
#include "fitted.hpp"
#include "options.hpp"
#include "panels.hpp"
#include "program.hpp"

namespace earth_diffusion {

constexpr int width = 16, conditions = 4, sampler_steps = 16;
using Guess = hg::UNet<conditions, 3, width, Globe>;
using Net = hg::DiffusionUNet<3, 3, width, Globe, conditions>;
constexpr hg::EDM edm{.sigma_data = 1};  // labels are in units of their deviation

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

/// What a U-Net answers that learns the mean.
Maps<3> guess_of(const Task& task, const earth::Options& options) {
  hg::Trainer trainer(Guess{}, hg::AdamW{.lr = options.learning_rate}, task.mesh, {.seed = options.seed});
  const int steps = std::max(1, options.steps / 4);  // with more of them it learns its one map by heart
  earth::train(trainer, options, "unet", steps, [&](hg::index_t) {
    return hg::Batch{task.input, task.label, task.weight};
  });
  return trainer.predict(task.input);
}

/// Parameters of a network that tells noise from relief.
hg::Parameters<Net, float> denoiser_of(const Task& task, const earth::Options& options) {
  hg::Trainer trainer(Net{}, hg::AdamW{.lr = options.learning_rate, .schedule = hg::cosine_rate(options.steps)},
                      task.mesh, {.seed = options.seed, .average = 0.98});
  earth::train(trainer, options, "diffusion", options.steps, [&](hg::index_t) {
    const auto step = static_cast<std::uint64_t>(trainer.optimizer_state().steps());
    const auto batch = hg::noised(edm, task.label, {.seed = options.seed, .step = step});
    return hg::Batch{hg::Inputs{batch.image, task.input, batch.level}, batch.target, task.weight};
  });
  return trainer.averaged_parameters();
}

Maps<3> ensemble_of(const hg::Parameters<Net, float>& parameters, const Task& task, const earth::Options& options) {
  const auto given = to_field<Maps<conditions>>(task.mesh, options.grid, task.sample.input, options.members);
  const Maps<3> like(task.mesh, {options.members, 3, options.grid.height, options.grid.width});
  hg::Network network(parameters);
  return hg::sample_heun(edm, like, {.seed = options.seed + 1}, sampler_steps,
                         [&](const Maps<3>& image, const auto& level) {
                           return network.infer(parameters, hg::Inputs{image, given, level});
                         });
}

/// Root of the mean square, and the mean absolute error, which is the CRPS of a single guess; in the held-out sector.
std::pair<double, double> scores_of(const Maps<3>& field, const Task& task) {
  return {std::sqrt(hg::evaluate(hg::mse, field, task.label, task.held_out)),
          hg::evaluate(hg::l1, field, task.label, task.held_out)};
}

void draw(const Maps<3>& guess, const Task& of_guess, const Maps<3>& members, const Task& task,
          const earth::Options& options, const earth::Ranks& ranks) {
  const Map<3> mean = hg::cast<float>(hg::mean<0>(members, hg::keep_dimensions));
  const Map<3> spread =
      hg::cast<float>(hg::sqrt(hg::mean<0>(hg::square(members - hg::expand<0>(mean)), hg::keep_dimensions)));
  const auto relief = [](const auto& field, const Task& of, hg::index_t number = 0) {
    return earth::predicted_field(to_planes(field, of.sample.box, number), of.sample);
  };
  const bool first = task.mesh.coordinate(0) == 0;  // others hold the same rows
  earth::Panels panels(options.grid, ranks);
  panels.add("coarse", first, [&] { return task.sample.baseline; });
  panels.add("true", first, [&] { return task.sample.truth; });
  panels.add("U-Net", true, [&] { return relief(guess, of_guess); });
  panels.add("mean of members", first, [&] { return relief(mean, task); });
  panels.add("spread", first, [&] {
    earth::Planes planes = to_planes(spread, task.sample.box);
    for (float& value : planes.values) value /= 2;  // white: two deviations of the fine relief
    return planes;
  });
  const hg::Interval own = members.owned(0);
  for (hg::index_t m = 0; m < std::min(options.members, 5); ++m)
    panels.add("member " + std::to_string(m + 1), own.begin <= m && m < own.end,
               [&] { return relief(members, task, m - own.begin); });
  const hg::Communicator& world = task.mesh.world();
  hg::agree(world, [&] {
    if (world.rank() == 0) panels.write_png(options.output / "members.png");
  });
}

void run(const hg::Environment& env, const earth::Options& options) {
  const hg::Communicator& world = env.world();
  const bool root = env.is_root();
  const earth::Ranks ranks = earth::ranks_of(world);
  hg::agree(world, [&] {
    if (root) earth::prepare_output(options.output);
  });
  const auto mesh = hg::device_mesh<Mesh>(world, {options.mesh_height, options.mesh_width});
  if (root)
    std::cout << env.describe() << " mesh=" << options.mesh_height << "x" << options.mesh_width
              << " grid=" << options.grid.height << "x" << options.grid.width << " members=" << options.members
              << "\nreading the Earth..." << std::endl;
  const Task whole(hg::device_mesh<Mesh>(world, {1, world.size()}), options, ranks, 1);  // one map on all ranks
  const Task noisy(mesh, options, ranks, std::max(2, options.mesh_height));              // two levels of noise a step
  const Maps<3> guess = guess_of(whole, options);
  const auto parameters = denoiser_of(noisy, options);
  if (root) std::cout << "drawing " << options.members << " members..." << std::endl;
  const Maps<3> members = ensemble_of(parameters, noisy, options);

  const auto truth = to_field<Map<3>>(mesh, options.grid, noisy.sample.label);
  const auto weight = to_field<Map<1>>(mesh, options.grid, held_out_weight(options.grid, noisy.sample.box));
  const hg::EnsembleScores ensemble = hg::score_ensemble(members, hg::expand<0>(truth), hg::expand<0>(weight));
  if (!std::isfinite(ensemble.crps))
    throw hg::CollectiveError("the ensemble is not finite: use a smaller --learning-rate");
  const auto of_guess = scores_of(guess, whole), of_coarse = scores_of(Maps<3>(guess.shape()), whole);
  draw(guess, whole, members, noisy, options, ranks);
  hg::save_parameters(options.output / "weights.safetensors", parameters, world);
  if (!root) return;
  std::printf("held out, in deviations of the fine relief; CRPS of a single guess is its mean absolute error\n");
  std::printf("  bilinear  rmse %.4f  CRPS %.4f\n", of_coarse.first, of_coarse.second);
  std::printf("  U-Net     rmse %.4f  CRPS %.4f\n", of_guess.first, of_guess.second);
  std::printf("  ensemble  rmse %.4f  CRPS %.4f  spread/skill %.3f\n", ensemble.rmse, ensemble.crps,
              ensemble.spread_skill());
  std::printf("written: %s (members.png, unet_loss.jsonl, diffusion_loss.jsonl, weights.safetensors)\n",
              options.output.c_str());
  std::printf(
      "result: mesh=%dx%d members=%d unet_rmse=%.5f unet_crps=%.5f ensemble_rmse=%.5f ensemble_crps=%.5f "
      "spread_skill=%.4f\n",
      options.mesh_height, options.mesh_width, options.members, of_guess.first, of_guess.second, ensemble.rmse,
      ensemble.crps, ensemble.spread_skill());
}

}  // namespace earth_diffusion

int main(int argc, char** argv) {
  const earth::Program program{.name = "earth_diffusion",
                               .about =
                                   "Draws an ensemble of the Earth's fine relief by a diffusion model, cut over a "
                                   "mesh of MPI ranks",
                               .mesh = "ranks along the members x ranks along the rows",
                               .grid = "1",
                               .steps = "200",
                               .learning_rate = "2e-3",
                               .members = "8",
                               .doubles = false,
                               .limits = false};
  return earth::run_program(argc, argv, program, earth_diffusion::run);
}
