// A tsunami on the real sea floor: the shallow-water equations on the rotating Earth, cut over a mesh of ranks.
//
//   mpirun -n 4 shallow_water --mesh 2x2 --data "$(scripts/data)"          # ./dev demo shallow_water does this
//
// The equations are in ocean.hpp. Here each rank reads its own piece of the sea floor, time goes on, rank 0 writes
// pictures, and volume and energy are checked.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "canvas.hpp"
#include "command_line_words.hpp"
#include "options.hpp"  // prepare_output
#include "sea.hpp"
#include "series.hpp"

namespace shallow_water {

struct Options {
  std::string mesh = "-1x1", grid = "0.5";
  int steps = 2400, frames = 24;
  std::filesystem::path data, series, output = "output/shallow_water";
};

std::string text(const char* format, auto... values) {
  char words[256];
  std::snprintf(words, sizeof words, format, values...);
  return words;
}

hg::DeviceMesh<Mesh> read_mesh(const hg::Communicator& world, const std::string& words) {
  int height = 0, width = 0;
  char more = 0;
  if (std::sscanf(words.c_str(), "%dx%d%c", &height, &width, &more) != 2)
    throw hg::CollectiveError("--mesh " + words + " is no mesh: give rows x columns of ranks, such as 2x2");
  return hg::device_mesh<Mesh>(world, {height, width});
}

/// Each rank has coloured its piece; the small picture is summed over the ranks, and one of them writes it.
void write_picture(const hg::Communicator& world, const std::filesystem::path& file, const std::string& title,
                   earth::Grid grid, const earth::Planes& piece) {
  earth::Canvas canvas(earth::whole(grid));
  canvas.add(piece);
  canvas.reduce({.all_reduce_sum = [&](std::span<double> sums) { world.all_reduce(sums.data(), sums.size()); }});
  hg::agree(world, [&] {
    if (world.rank() != 0) return;
    const earth::Image map = canvas.image();
    const int scale = std::max(1, 1440 / map.width());
    earth::Image picture(32 + scale * map.height(), scale * map.width());
    picture.text(8, 12, title, earth::colour::ink);
    picture.paste(map, 32, 0, scale);
    picture.write_png(file);
  });
}

void run(const hg::Environment& env, const Options& options) {
  const hg::Communicator& world = env.world();
  const auto mesh = read_mesh(world, options.mesh);
  const earth::Grid grid = hg::agree(world, [&] { return earth::parse_grid(options.grid); });
  hg::agree(world, [&] {
    if (env.is_root()) earth::prepare_output(options.output);
  });
  auto [ocean, relief, metres] = read_sea(options.data, grid, mesh);
  ocean.eta = raised_at(ocean, {38, 143});  // off Japan, as in 2011
  const double volume = ocean.volume(), energy = ocean.energy(), dt = 0.8 * ocean.longest_step();
  if (!(volume > 0))
    throw hg::CollectiveError((options.data / "etopo1.jpg").string() +
                              " shows no sea off Japan: give the folder that scripts/data prints with --data");
  if (env.is_root())
    std::printf("%s\npictures in %s; grid of %s degrees, %d steps of %.1f s: %.1f hours\n", env.describe().c_str(),
                options.output.c_str(), options.grid.c_str(), options.steps, dt, options.steps * dt / 3600);

  std::optional<OceanSeries> series;
  if (!options.series.empty() && options.frames > 0)
    series.emplace(options.series, ocean, options.frames, options.steps * dt / options.frames);
  double seconds = 0;
  const hg::Tally before = hg::comm_stats().messages;
  for (int step = 1, frame = 0; step <= options.steps; ++step) {
    Kokkos::Timer timer;
    ocean.step(dt);
    Kokkos::fence();
    seconds += timer.seconds();
    if (frame == static_cast<std::int64_t>(step) * options.frames / options.steps) continue;  // spread evenly
    if (series) series->write(frame, ocean);
    const std::string title =
        text("%d h %02d min: surface from %.2f to %.2f m", static_cast<int>(step * dt / 3600),
             static_cast<int>(step * dt / 60) % 60, hg::min(ocean.eta).item(), hg::max(ocean.eta).item());
    write_picture(world, options.output / text("frame_%03d.png", ++frame), title, grid,
                  coloured(relief, metres, ocean.eta.to_host()));
    if (!env.is_root()) continue;
    std::printf("frame %d/%d  step %d/%d  %s  %.2f ms/step\n", frame, options.frames, step, options.steps,
                title.c_str(), 1000 * seconds / step);
    std::fflush(stdout);
  }
  const hg::Tally sent = hg::comm_stats().messages - before;

  const double drift = ocean.volume() / volume - 1, ratio = ocean.energy() / energy;
  const double highest = hg::max(ocean.eta), lowest = hg::min(ocean.eta);
  if (env.is_root())
    std::printf(
        "result: mesh=%dx%d volume_drift=%.1e energy_ratio=%.5f highest=%.17g lowest=%.17g ms_per_step=%.2f "
        "messages_per_step=%.1f\n",
        mesh.extent(0), mesh.extent(1), drift, ratio, highest, lowest, 1000 * seconds / options.steps,
        static_cast<double>(sent.count) / options.steps);
  if (!(std::abs(drift) < 1e-12)) throw hg::CollectiveError(text("volume is not kept: it drifts by %.1e", drift));
  if (!(ratio > 0 && ratio < 1.05))  // it may only fall, but u, v and eta are half a step apart
    throw hg::CollectiveError(text("energy has changed by the factor %g: it should fall slowly", ratio));
}

}  // namespace shallow_water

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  shallow_water::Options options;
  CLI::App app("A tsunami by the shallow-water equations on the rotating Earth, cut over MPI ranks", "shallow_water");
  app.add_option("--mesh", options.mesh, "rows x columns of ranks; -1: as many as are left")->capture_default_str();
  app.add_option("--grid", options.grid, "degrees: 2, 1, 0.5, 0.25, 0.1, or full: 2700 x 5400")->capture_default_str();
  app.add_option("--steps", options.steps, "time steps, 1 to 100000000")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--frames", options.frames, "pictures, 0 to 100000")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option("--data", options.data, "folder of etopo1.jpg, as scripts/data prints it")->required();
  app.add_option("--series", options.series, "Zarr store for ten variables at the time of each picture");
  app.add_option("--output", options.output, "folder for the pictures")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (env.is_root()) std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    throw hg::CollectiveError(earth::words_of(app, error));
  }
  run(env, options);  // what throws ends all ranks, with one sentence
}
