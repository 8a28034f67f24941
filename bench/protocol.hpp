// What every bench program does alike: its options, its clock, its one line of JSON.
//
//   bench_X --name NAME --steps N [--warm-up N] [--mesh 2x1] [--size 512 | --size 1024x512]   measures
//   bench_X --name NAME --parameters FILE                  writes the model's initial parameters, raw floats
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <halogen/halogen.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using Mesh = hg::Mesh<"height", "width">;
template <class T, int Channels>
using FieldOf = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;
template <int Channels>
using Field = FieldOf<float, Channels>;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string name, parameters;
  int steps = 5, warm_up = 2;
  std::array<int, 2> mesh{-1, 1}, size{};  ///< size: 0 where the name says it

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
      else if (key == "--mesh")
        mesh = pair(value);
      else if (key == "--size")
        size = pair(value);
      else
        throw std::invalid_argument("there is no option " + key);
    }
  }

  /// 2x1 as it stands, 512 as 512x512.
  static std::array<int, 2> pair(const std::string& text) {
    const auto cross = text.find('x');
    const int first = std::stoi(text);
    return {first, cross == std::string::npos ? first : std::stoi(text.substr(cross + 1))};
  }
};

/// (1, channels, height, width): of --size, or else square.
inline std::array<hg::index_t, 4> square(const Options& options, hg::index_t channels, hg::index_t size) {
  const auto side = [&](int given) { return given == 0 ? size : hg::index_t{given}; };
  return {1, channels, side(options.size[0]), side(options.size[1])};
}

/// Number `index` of a sequence in [-0.5, 0.5) that bench/peers/protocol.py knows as well.
inline float number(std::uint32_t index) {
  return static_cast<float>(static_cast<double>(index * 2654435761U) / 4294967296.0 - 0.5);
}

/// A field of the numbers from `first` on, in the order of the whole field.
template <class AnyField>
AnyField numbers(const hg::DeviceMesh<typename AnyField::mesh_type>& mesh, const typename AnyField::Extents& extents,
                 std::uint32_t first = 0) {
  using T = typename AnyField::value_type;
  AnyField field(mesh, extents);
  std::vector<T> piece;
  hg::detail::for_each_point(field, mesh.rank(), [&](hg::index_t i) {
    piece.push_back(static_cast<T>(number(first + static_cast<std::uint32_t>(i))));
  });
  field.copy_from_host(piece);
  return field;
}

/// Root mean square over all ranks of what each holds.
template <class T>
double root_mean_square(const hg::Communicator& world, const std::vector<T>& values) {
  double sum[2] = {0, static_cast<double>(values.size())};
  for (const T& value : values) sum[0] += static_cast<double>(value) * static_cast<double>(value);
  world.all_reduce(sum, 2);
  return std::sqrt(sum[0] / sum[1]);
}

inline std::string joined(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    char digits[32];
    std::snprintf(digits, sizeof digits, text.size() == 1 ? "%.9g" : ", %.9g", value);
    text += digits;
  }
  return text += ']';
}

/// Milliseconds of each step after the warm-up, all ranks starting together, until the last has ended.
template <class Step>
std::vector<double> milliseconds(const Options& options, const hg::Communicator& world, Step&& step) {
  std::vector<double> all;
  for (int i = -options.warm_up; i < options.steps; ++i) {
    world.barrier();
    const auto begin = Clock::now();
    step();
    Kokkos::fence();
    world.barrier();
    if (i >= 0) all.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return all;
}

/// The line: `members` are further "key": value of the JSON object.
inline void print_line(const Options& options, const hg::Communicator& world, const std::string& members) {
  if (world.rank() == 0)
    std::printf("{\"name\": \"%s\", \"threads\": %d, \"ranks\": %d, %s}\n", options.name.c_str(), Kokkos::num_threads(),
                world.size(), members.c_str());
}

/// Runs `step` and prints its times. `result()`, outside the timing, are numbers that the peer must reproduce.
template <class Step, class Result>
void measure(const Options& options, const hg::Communicator& world, Step&& step, Result&& result) {
  const std::string times = joined(milliseconds(options, world, step));
  print_line(options, world, "\"milliseconds\": " + times + ", \"result\": " + joined(result()));
}

/// The same of a training step that returns its loss. The result is the loss of the second step: it holds forward,
/// backward and update; later ones drift with the rounding.
template <class Step>
void measure_training(const Options& options, const hg::Communicator& world, Step&& step) {
  double loss = 0;
  int count = 0;
  measure(
      options, world,
      [&] {
        const double now = step();
        if (++count <= 2) loss = now;
      },
      [&] { return std::vector{loss}; });
}

/// Where parameters are asked for: writes them and returns true.
template <class AnyParameters>
bool writes_parameters(const Options& options, const AnyParameters& parameters) {
  if (options.parameters.empty()) return false;
  const std::vector<float> values = parameters.to_host();
  std::ofstream file(options.parameters, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file.flush()) throw std::runtime_error("cannot write " + options.parameters);
  return true;
}

/// Forward alone. The output stays in the arena, as between the layers of a model.
template <class Model, class Image>
void measure_forward(const Options& options, const Image& image) {
  const auto parameters = hg::initial_parameters<Model, float>(1);
  if (writes_parameters(options, parameters)) return;
  hg::Network<Model, float> network;
  const auto step = [&] {
    network.template evaluation<hg::PlanKind::inference>(image).forward(hg::detail::view_of(image), parameters.data());
  };
  const hg::Communicator& world = image.mesh().world();
  measure(options, world, step, [&] {
    const auto& evaluation = network.template evaluation<hg::PlanKind::inference>(image);
    return std::vector{root_mean_square(world, network.prediction(image, evaluation).to_host())};
  });
}

/// Forward and the gradients of input and parameters, from a cotangent placed as the output.
template <class Model, class Image, class Cotangent>
void measure_backward(const Options& options, const Image& image, const Cotangent& cotangent) {
  const auto parameters = hg::initial_parameters<Model, float>(1);
  if (writes_parameters(options, parameters)) return;
  constexpr auto kind = hg::PlanKind::vjp;
  hg::Network<Model, float> network;
  const hg::Parameters<Model, float, hg::Partial<hg::Sum>> gradient("bench::gradient",
                                                                    hg::detail::sub_meshes(image).samples);
  const auto step = [&] {
    auto& evaluation = network.template evaluation<kind>(image);
    evaluation.forward(hg::detail::view_of(image), parameters.data());
    hg::detail::run_vjp(evaluation, gradient.data(), cotangent);
  };
  const hg::Communicator& world = image.mesh().world();
  measure(options, world, step, [&] {
    const auto& evaluation = network.template evaluation<kind>(image);
    std::vector result{root_mean_square(world, network.prediction(image, evaluation).to_host()),
                       root_mean_square(world, network.input_gradient(image, evaluation).to_host())};
    if (const auto values = gradient.to_host(); !values.empty()) result.push_back(root_mean_square(world, values));
    return result;
  });
}

/// BASE_forward and BASE_backward of a model that keeps the resolution; false for other names.
template <class Model, class Image>
bool both(const Options& options, const hg::DeviceMesh<Mesh>& mesh, const std::string& base,
          const typename Image::Extents& extents) {
  using Output = typename hg::Network<Model, float>::template Prediction<Image>;
  if (options.name != base + "_forward" && options.name != base + "_backward") return false;
  const auto image = numbers<Image>(mesh, extents);
  if (options.name == base + "_forward") {
    measure_forward<Model>(options, image);
  } else {
    hg::index_t count = 1;
    for (const hg::index_t extent : extents) count *= extent;
    typename Output::Extents same = extents;
    same[1] = Output::tensor_type::extents[1];
    measure_backward<Model>(options, image, numbers<Output>(mesh, same, static_cast<std::uint32_t>(count)));
  }
  return true;
}

/// NAME alone: forward.
template <class Model, class Image>
bool forward(const Options& options, const hg::DeviceMesh<Mesh>& mesh, const std::string& name,
             const typename Image::Extents& extents) {
  if (options.name != name) return false;
  measure_forward<Model>(options, numbers<Image>(mesh, extents));
  return true;
}

/// run.operator()<T>(options) for fields of T: float; in programs for a device bfloat16 where the name ends in _bf16,
/// which the options that it is given do not.
template <class Run>
bool with_value_type(const Options& options, Run run) {
  if constexpr (!hg::runs_on_host) {
    const std::string half = "_bf16";
    if (options.name.ends_with(half)) {
      Options plain = options;
      plain.name.resize(plain.name.size() - half.size());
      return run.template operator()<hg::bfloat16>(plain);
    }
  }
  return run.template operator()<float>(options);
}

/// main() of a bench program; `run(options, mesh)` is false for a name that it does not know.
template <class Run>
int run_main(int argc, char** argv, Run&& run) {
  hg::Environment env(argc, argv);
  const Options options(argc, argv);
  if (run(options, hg::device_mesh<Mesh>(env.world(), options.mesh))) return 0;
  std::fprintf(stderr, "bench: there is no '%s' here\n", options.name.c_str());
  return 2;
}

}  // namespace bench
