// earth_unet's task by attention: a FieldTransformer, whose points attend to their neighbourhoods, learns to downscale
// the whole Earth, cut over rows and columns of ranks. A U-Net learns the same beside it.
//
//   mpirun -n 4 earth_transformer --mesh 2x2          # ./dev demo earth_transformer does this, data included
//
// Coarse colours and fine relief in, fine colours out; the sector 60 E - 150 E is never trained on, and scored.
#include <cstdio>
#include <halogen/files.hpp>
#include <halogen/halogen.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "fitted.hpp"
#include "options.hpp"
#include "panels.hpp"
#include "program.hpp"
#include "sample.hpp"
#include "score.hpp"

namespace earth_transformer {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Mesh = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

constexpr int channels = 64, depth = 4, heads = 4, patch = 4;
using Transformer = hg::FieldTransformer<7, 3, channels, depth, heads, patch, Globe>;
using UNet = hg::UNet<7, 3, 16, Globe>;

struct Task {
  hg::DeviceMesh<Mesh> mesh;
  earth::Sample sample;
  Field<7> input;
  Field<3> label;
  Field<1> weight;

  Task(const hg::DeviceMesh<Mesh>& on, const earth::Options& options, const earth::Ranks& ranks)
      : mesh(on),
        sample(earth::load_sample(options.data, options.grid, box_of(on, options.grid), ranks)),
        input(to_field<7>(sample.input)),
        label(to_field<3>(sample.label)),
        weight(to_field<1>(sample.weight)) {}

  earth::Planes to_planes(const Field<3>& field) const {
    earth::Planes planes(3, sample.box);
    planes.values = field.to_host();
    return planes;
  }

 private:
  static earth::Box box_of(const hg::DeviceMesh<Mesh>& mesh, earth::Grid grid) {
    const Field<1> field(mesh, {1, 1, grid.height, grid.width});
    const hg::Interval rows = field.owned(2), columns = field.owned(3);
    return {rows.begin, rows.end, columns.begin, columns.end};
  }
  template <int Channels>
  Field<Channels> to_field(const earth::Planes& planes) const {
    return hg::from_local<Field<Channels>>(mesh, {1, Channels, sample.grid.height, sample.grid.width}, planes.values);
  }
};

/// What a network says after its steps, and how far that is from the truth where it was not trained.
struct Outcome {
  earth::Planes output;
  earth::Score score;
};

template <class Net>
Outcome outcome_of(const Task& task, const char* name, double rate, const earth::Options& options,
                   const earth::Ranks& ranks) {
  hg::Trainer trainer(Net{},
                      hg::AdamW{.lr = rate, .schedule = hg::cosine_rate(options.steps, {.warmup = options.steps / 10})},
                      task.mesh, {.seed = options.seed});
  earth::train(trainer, options, name, options.steps, [&](hg::index_t) {
    return hg::Batch{task.input, task.label, task.weight};
  });
  const earth::Planes output = task.to_planes(trainer.predict(task.input));
  hg::save_parameters(options.output / (std::string(name) + ".safetensors"), trainer.parameters(), task.mesh.world());
  return {output, earth::score(output, task.sample, ranks)};
}

std::string titled(const char* name, const Outcome& outcome) {
  char text[64];
  std::snprintf(text, sizeof text, "%s, x %.3f", name, outcome.score.ratio());
  return text;
}

void run(const hg::Environment& env, const earth::Options& options) {
  const hg::Communicator& world = env.world();
  const bool root = env.is_root();
  const earth::Ranks ranks = earth::ranks_of(world);
  hg::agree(world, [&] {
    if (root) earth::prepare_output(options.output);
  });
  const auto mesh = hg::device_mesh<Mesh>(world, {options.mesh_height, options.mesh_width});
  // Planned before anything is read, so that a mesh that does not fit ends here, on all ranks alike.
  hg::layout_of<Field<7>>(Transformer{}, mesh, {1, 7, options.grid.height, options.grid.width});
  if (root)
    std::cout << env.describe() << " mesh=" << options.mesh_height << "x" << options.mesh_width
              << " grid=" << options.grid.height << "x" << options.grid.width << "\nreading the Earth..." << std::endl;
  const Task task(mesh, options, ranks);
  const Outcome unet = outcome_of<UNet>(task, "unet", 5 * options.learning_rate, options, ranks);
  const Outcome transformer = outcome_of<Transformer>(task, "transformer", options.learning_rate, options, ranks);

  earth::Panels panels(options.grid, ranks);
  panels.add("coarse, x 1", true, [&] { return task.sample.baseline; });
  panels.add(titled("U-Net", unet), true, [&] { return earth::predicted_field(unet.output, task.sample); });
  panels.add(titled("transformer", transformer), true,
             [&] { return earth::predicted_field(transformer.output, task.sample); });
  panels.add("true", true, [&] { return task.sample.truth; });
  hg::agree(world, [&] {
    if (root) panels.write_png(options.output / "held_out.png");
  });
  if (!root) return;
  std::printf("written: %s (held_out.png, unet_loss.jsonl, transformer_loss.jsonl, both networks' weights)\n",
              options.output.c_str());
  std::printf("result: mesh=%dx%d unet_ratio=%.5f transformer_ratio=%.5f bilinear_rmse=%.5f\n", options.mesh_height,
              options.mesh_width, unet.score.ratio(), transformer.score.ratio(), unet.score.baseline_rmse);
}

}  // namespace earth_transformer

int main(int argc, char** argv) {
  const earth::Program program{.name = "earth_transformer",
                               .about =
                                   "Trains a transformer of neighbourhood attention to downscale the whole Earth, "
                                   "cut over a mesh of MPI ranks, beside a U-Net",
                               .steps = "150",
                               .learning_rate = "2e-3",
                               .doubles = false,
                               .limits = false};
  return earth::run_program(argc, argv, program, earth_transformer::run);
}
