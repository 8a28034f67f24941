// What every bench program does alike: its options, its clock, its one line of JSON.
//
//   bench_X --name NAME --steps N [--warm-up N]     measures
//   bench_X --name NAME --parameters FILE           writes the model's initial parameters, raw floats
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <halogen/halogen.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

using Mesh = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

struct Options {
  std::string name, parameters;
  int steps = 5, warm_up = 2;

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (i + 1 == argc) throw std::invalid_argument(key + " wants a value");
      const std::string value = argv[i + 1];
      if (key == "--name")
        name = value;
      else if (key == "--parameters")
        parameters = value;
      else if (key == "--steps")
        steps = std::stoi(value);
      else if (key == "--warm-up")
        warm_up = std::stoi(value);
      else
        throw std::invalid_argument("there is no option " + key);
    }
  }
};

/// Number `index` of a sequence in [-0.5, 0.5) that bench/peers/protocol.py knows as well.
inline float number(std::uint32_t index) {
  return static_cast<float>(static_cast<double>(index * 2654435761U) / 4294967296.0 - 0.5);
}

/// (1, Channels, size, size) of the numbers from `first` on.
template <int Channels>
Field<Channels> field(const hg::DeviceMesh<Mesh>& mesh, hg::index_t size, std::uint32_t first = 0) {
  std::vector<float> values(static_cast<std::size_t>(Channels * size * size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(first + static_cast<std::uint32_t>(i));
  return hg::from_local<Field<Channels>>(mesh, {1, Channels, size, size}, values);
}

/// Root mean square over the whole of a field on one rank.
template <class AnyField>
double root_mean_square(const AnyField& field) {
  double sum = 0;
  const std::vector<float> values = field.to_host();
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Runs `step` and prints the milliseconds of each step after the warm-up. `result()`, outside the timing, is a number
/// that the peer must reproduce.
template <class Step, class Result>
void measure(const Options& options, Step&& step, Result&& result) {
  using Clock = std::chrono::steady_clock;
  std::string list;
  for (int i = -options.warm_up; i < options.steps; ++i) {
    const auto begin = Clock::now();
    step();
    Kokkos::fence();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (i >= 0) list += (list.empty() ? "" : ", ") + std::to_string(ms);
  }
  std::printf("{\"name\": \"%s\", \"threads\": %d, \"milliseconds\": [%s], \"result\": %.9g}\n", options.name.c_str(),
              Kokkos::num_threads(), list.c_str(), static_cast<double>(result()));
}

/// Training with MSE and AdamW, or prediction, of one model on one field.
template <class Model, int In, int Out>
void measure_model(const Options& options, const hg::DeviceMesh<Mesh>& mesh, hg::index_t size, bool training) {
  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
  if (!options.parameters.empty()) {
    const std::vector<float> values = trainer.parameters().to_host();
    std::ofstream file(options.parameters, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file.flush()) throw std::runtime_error("cannot write " + options.parameters);
    return;
  }
  const auto image = field<In>(mesh, size);
  if (training) {
    const auto label = field<Out>(mesh, size, static_cast<std::uint32_t>(In * size * size));
    double loss = 0;  // of the second step: it holds forward, backward and update; later ones drift with the rounding
    int count = 0;
    const auto step = [&] {
      const double now = trainer.step(hg::mse, image, label).item();
      if (++count <= 2) loss = now;
    };
    measure(options, step, [&] { return loss; });
  } else {
    measure(
        options, [&] { trainer.predict(image); }, [&] { return root_mean_square(trainer.predict(image)); });
  }
}

/// main() of a bench program; `run(options, mesh)` is false for a name that it does not know.
template <class Run>
int run_main(int argc, char** argv, Run&& run) {
  hg::Environment env(argc, argv);
  const Options options(argc, argv);
  if (run(options, hg::device_mesh<Mesh>(env.world(), {1, 1}))) return 0;
  std::fprintf(stderr, "bench: there is no '%s' here\n", options.name.c_str());
  return 2;
}

}  // namespace bench
