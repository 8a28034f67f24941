// A forecast of the ocean's surface: a U-Net learns one step of a run of the shallow-water equations, then goes on by
// itself for twenty steps, beside the truth.
//
//   mpirun -n 4 forecast --mesh 2x2          # ./dev demo forecast does this, data included
//
// The run is written to a Zarr store, and read from it, each rank its own piece. Half of the training is done on one
// mesh; the other half goes on from its checkpoint on a mesh of one row of ranks.
#include <cstdio>
#include <halogen/files.hpp>
#include <halogen/halogen.hpp>
#include <halogen/io/field_dataset.hpp>
#include <halogen/io/zarr_writer.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "canvas.hpp"
#include "chart.hpp"
#include "fitted.hpp"
#include "options.hpp"
#include "program.hpp"
#include "sea.hpp"
#include "series.hpp"

namespace forecast {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Mesh = shallow_water::Mesh;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

constexpr int states = 3, statics = 3, base = 16;
constexpr hg::index_t ahead = 20, batch = 4;  // steps of the forecast, samples
constexpr double minutes = 15;                // between two times
const std::vector<std::string> state_names{"eta", "u", "v"}, static_names{"depth", "sea", "sine"};

/// What the state becomes: a weighted sum of itself, and what a U-Net adds.
struct NextState : hg::Module<NextState> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"state", hg::Conv2d<states + statics, states>> state;
    constexpr hg::Named<"change", hg::UNet<states + statics, states, base, Globe>> change;
    const hg::Traced now = state(x);
    return now + change(x);
  }
};
using Data = hg::FieldDataset<Field<states + statics>, Field<states>>;

/// Times of the run that are trained on; a few steps need few.
hg::index_t trained(const earth::Options& options) { return std::clamp<hg::index_t>(2 * options.steps, batch + 1, 96); }
hg::index_t times(const earth::Options& options) { return trained(options) + ahead + 1; }

hg::FieldDatasetOptions data_options(const earth::Options& options) {
  return {.inputs = state_names,
          .targets = state_names,
          .statics = static_names,
          .samples = batch,
          .last = trained(options),
          .seed = options.seed};
}

/// Runs the equations and writes the store.
void make_series(const hg::DeviceMesh<Mesh>& mesh, const earth::Options& options, const std::filesystem::path& store) {
  shallow_water::Sea sea = shallow_water::read_sea(options.data, options.grid, mesh);
  shallow_water::Ocean& ocean = sea.ocean;
  for (const shallow_water::Place place : {shallow_water::Place{38, 143}, {-20, -74}, {3, 92}, {55, -155}, {-40, 60}})
    ocean.eta = ocean.eta + shallow_water::raised_at(ocean, place, 600e3);
  const double longest = 0.8 * ocean.longest_step(), between = 60 * minutes;
  if (!(longest > 0 && longest < 1e6))
    throw hg::CollectiveError((options.data / "etopo1.jpg").string() +
                              " shows no sea: give the folder that scripts/data prints with --data");
  const int steps = static_cast<int>(std::ceil(between / longest));
  const shallow_water::OceanSeries series(store, ocean, times(options), between);
  for (hg::index_t t = 0; t < times(options); ++t) {
    for (int step = 0; t > 0 && step < steps; ++step) ocean.step(between / steps);
    series.write(t, ocean);
  }
}

/// Trains until so many epochs are done, from the newest checkpoint on; on whatever mesh.
hg::Parameters<NextState, float> parameters_after(hg::index_t epochs, hg::index_t of, const hg::DeviceMesh<Mesh>& mesh,
                                                  const earth::Options& options, const std::filesystem::path& store) {
  const Data data(hg::ZarrStore(store), mesh, data_options(options));
  const hg::index_t steps = data.size();
  hg::Trainer trainer(
      NextState{},
      hg::AdamW{.lr = options.learning_rate, .schedule = hg::cosine_rate(of * steps, {.warmup = of * steps / 10})},
      mesh, {.seed = options.seed});
  hg::FitOptions fit = earth::fit_options(options, "forecast", epochs, steps, mesh.rank() == 0);
  fit.checkpoints = {.folder = options.output / "checkpoints"};
  fit.seed = options.seed;
  hg::fit(trainer, hg::mse, data, fit);
  const auto [read, waited] = data.seconds();
  if (mesh.rank() == 0) std::printf("reading batches took %.2f s, of which training waited %.2f s\n", read, waited);
  return trainer.parameters();
}

/// Truth and forecast after some steps, one above the other, and below them the error by step.
class Picture {
 public:
  Picture(const shallow_water::Sea& sea, const earth::Options& options)
      : sea_(sea), grid_(options.grid), image_(title + 3 * row, margin + 4 * column) {}

  static bool shows(hg::index_t step) { return step == 1 || step == 5 || step == 10 || step == ahead; }

  /// Collective. Surfaces are in metres.
  void add(hg::index_t step, const Field<states>& truth, const Field<states>& state) {
    const std::string after = " after " + std::to_string(step) + (step == 1 ? " step" : " steps");
    add(0, "truth" + after, truth);
    add(1, "forecast" + after, state);
    ++next_;
  }
  /// For one rank.
  void write(const std::filesystem::path& file, const std::vector<double>& ratios) {
    earth::draw_chart(image_, title + 2 * row, 60, row - 60, 4 * column - 120,
                      {.title = "error of the forecast / error of the state standing still, by step",
                       .reference = 1,
                       .reference_label = "no better"},
                      ratios);
    image_.write_png(file);
  }

 private:
  static constexpr int margin = 12, title = 28, row = 220, column = 372;

  void add(int place, const std::string& words, const Field<states>& state) {
    const hg::Communicator& world = state.mesh().world();
    const std::vector<float> values = state.to_host();
    const std::vector<double> surface(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(sea_.metres.size()));
    earth::Canvas canvas(earth::whole(grid_), {180, 360});
    canvas.add(shallow_water::coloured(sea_.relief, sea_.metres, surface));
    canvas.reduce(earth::ranks_of(world));
    const earth::Image map = canvas.image();
    const int y = place * row, x = margin + next_ * column;
    image_.text(y + 4, x, words, earth::colour::ink);
    image_.paste(map, y + title, x, std::max(1, 360 / map.width()));
  }

  const shallow_water::Sea& sea_;
  earth::Grid grid_;
  earth::Image image_;
  int next_ = 0;  // column
};

/// Root mean squares of the difference, in deviations of the variables.
double error_of(const Field<states>& a, const Field<states>& b) { return std::sqrt(hg::evaluate(hg::mse, a, b)); }

void run(const hg::Environment& env, const earth::Options& options) {
  const hg::Communicator& world = env.world();
  const bool root = env.is_root();
  const std::filesystem::path store = options.output / "ocean.zarr";
  hg::agree(world, [&] {
    if (!root) return;
    earth::prepare_output(options.output);
    for (const char* old : {"ocean.zarr", "ocean.zarr.statistics.json", "checkpoints"})
      std::filesystem::remove_all(options.output / old);
  });
  const auto mesh = hg::device_mesh<Mesh>(world, {options.mesh_height, options.mesh_width});
  const auto row = hg::device_mesh<Mesh>(world, {1, -1});
  hg::layout_of<Field<states + statics>>(NextState{}, row,
                                         {batch, states + statics, options.grid.height, options.grid.width});
  if (root)
    std::cout << env.describe() << " mesh=" << options.mesh_height << "x" << options.mesh_width
              << " grid=" << options.grid.height << "x" << options.grid.width << "\nrunning the ocean..." << std::endl;
  make_series(mesh, options, store);

  const hg::index_t steps_of_epoch = (trained(options) - 1) / batch;
  const hg::index_t epochs = std::max<hg::index_t>(2, options.steps / steps_of_epoch);
  parameters_after(epochs / 2, epochs, mesh, options, store);
  if (root) std::cout << "going on from the checkpoint on a mesh of 1x" << world.size() << std::endl;
  const auto parameters = parameters_after(epochs, epochs, row, options, store);

  // one sample a batch, in order; the first has the state at the beginning as its target
  hg::FieldDatasetOptions held_out = data_options(options);
  held_out.samples = 1;
  held_out.shuffle = false;
  held_out.first = trained(options) - 1;
  held_out.last = times(options);
  held_out.statistics_first = 0;
  held_out.statistics_last = trained(options);
  const Data data(hg::ZarrStore(store), row, held_out);
  const Field<states> begin = data[0].y;
  const hg::ZarrSeries<Field<states>> out(
      options.output / "forecast.zarr", "state", row, {ahead, states, options.grid.height, options.grid.width},
      {.dimension_names = {"time", "variable", "lat", "lon"}, .attributes = {{"variables", "eta, u, v"}}});
  std::vector<double> errors, standing;
  const shallow_water::Sea sea = shallow_water::read_sea(options.data, options.grid, row);
  Picture picture(sea, options);
  hg::rollout(
      parameters, data[1].x, ahead,
      [&](hg::index_t step, const Field<states>& state) {
        const Field<states> truth = data[static_cast<std::size_t>(step)].y;
        errors.push_back(error_of(state, truth));
        standing.push_back(error_of(begin, truth));
        const Field<states> metres = data.denormalised(state);
        out.write(step - 1, metres);
        if (Picture::shows(step)) picture.add(step, data.denormalised(truth), metres);
      },
      [&](const Field<states + statics>& image, const Field<states>& state) { return data.next(image, state); });
  std::vector<double> ratios;
  for (std::size_t i = 0; i < errors.size(); ++i) ratios.push_back(errors[i] / standing[i]);
  hg::agree(world, [&] {
    if (root) picture.write(options.output / "forecast.png", ratios);
  });
  if (!root) return;
  const auto at = [](const std::vector<double>& list, hg::index_t step) {
    return list[static_cast<std::size_t>(step - 1)];
  };
  for (hg::index_t step = 1; step <= ahead; ++step)
    if (Picture::shows(step))
      std::printf("after %2d steps: error %.4f, of a state that stands still %.4f\n", static_cast<int>(step),
                  at(errors, step), at(standing, step));
  std::printf("written: %s (forecast.png, forecast.zarr, ocean.zarr, checkpoints, forecast_loss.jsonl)\n",
              options.output.c_str());
  std::printf("result: mesh=%dx%d error_1=%.5f error_20=%.5f still_1=%.5f still_20=%.5f\n", options.mesh_height,
              options.mesh_width, at(errors, 1), at(errors, ahead), at(standing, 1), at(standing, ahead));
}

}  // namespace forecast

int main(int argc, char** argv) {
  const earth::Program program{.name = "forecast",
                               .about =
                                   "Learns a step of the ocean's surface and forecasts twenty, cut over a mesh of "
                                   "MPI ranks",
                               .grid = "2",
                               .steps = "345",
                               .learning_rate = "2e-3",
                               .doubles = false,
                               .limits = false};
  return earth::run_program(argc, argv, program, forecast::run);
}
