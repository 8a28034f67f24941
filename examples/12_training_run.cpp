// A training from files to files: each rank reads its own piece of each day, the rate follows a schedule, one day is
// held out, a checkpoint lets another run go on, and the prediction is written piece by piece. Nobody ever holds a
// whole field.
//
//   mpirun -n 4 12_training_run [FOLDER]
//
// links: halogen::io
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <halogen/halogen.hpp>
#include <halogen/io/checkpoint.hpp>
#include <halogen/io/fields.hpp>
#include <numbers>
#include <string>
#include <vector>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Net = hg::Residual<hg::Sequential<Conv<1, 16>, hg::GroupNorm<4, 16>, hg::GELU, Conv<16, 1>>>;
using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;
constexpr hg::index_t height = 64, width = 128;
constexpr int days = 5, epochs = 12;  // the last day is held out

// Waves that travel eastwards, `hours` after the day's beginning.
Field waves(const hg::DeviceMesh<Mesh>& mesh, int day, double hours) {
  Field field(mesh, {1, 1, height, width});
  std::vector<float> piece;
  for (hg::index_t y = field.offset(2); y < field.offset(2) + field.local_extent(2); ++y)
    for (hg::index_t x = field.offset(3); x < field.offset(3) + field.local_extent(3); ++x) {
      const double east = 2 * std::numbers::pi * double(x) / width, south = std::numbers::pi * double(y) / height;
      piece.push_back(float(std::sin((3 + day % 2) * (east - hours / 24) + day) * std::sin(south)));
    }
  field.copy_from_host(piece);
  return field;
}

template <class Trainer>
double held_out_loss(Trainer& trainer, const Field& now, const Field& later) {
  return hg::mean(hg::square(Field(trainer.predict(now)) - later)).item();
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const std::filesystem::path folder = argc > 1 ? argv[1] : "output/training_run_" + std::to_string(mesh.size());
  if (std::error_code none; env.is_root()) std::filesystem::create_directories(folder, none);  // save_fields tells
  mesh.world().barrier();
  const auto file = [&](int day) { return folder / ("day" + std::to_string(day) + ".safetensors"); };
  for (int day = 0; day < days; ++day)
    hg::save_fields(file(day), hg::NamedField{"now", waves(mesh, day, 0)},
                    hg::NamedField{"later", waves(mesh, day, 6)});

  Field now = hg::load_field<Field>(file(days - 1), "now", mesh),
        later = hg::load_field<Field>(file(days - 1), "later", mesh);
  const Field held_now = now.clone(), held_later = later.clone();
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh, {.seed = 1});
  const double before = held_out_loss(trainer, held_now, held_later);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    trainer.set_learning_rate(1e-2 * 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs)));
    double sum = 0;
    for (int day = 0; day < days - 1; ++day) {
      hg::load_field(file(day), "now", now);  // into the same memory
      hg::load_field(file(day), "later", later);
      sum += trainer.step(hg::huber, now, later).item();  // before the next step, which reuses its memory
    }
    const double held_out = held_out_loss(trainer, held_now, held_later);
    if (epoch % 4 == 3 && env.is_root()) std::printf("epoch %2d: loss %.5f, held out %.5f\n", epoch, sum / 4, held_out);
  }
  hg::save_checkpoint(folder / "run.safetensors", trainer, mesh.world());

  hg::Trainer next_run(Net{}, hg::AdamW{}, mesh);  // another program, perhaps on other ranks
  hg::load_checkpoint(folder / "run.safetensors", next_run, mesh.world());
  const double after = held_out_loss(next_run, held_now, held_later);
  hg::save_fields(folder / "forecast.safetensors", hg::NamedField{"forecast", Field(next_run.predict(held_now))});
  if (env.is_root()) std::printf("held out: %.5f -> %.5f, forecast in %s\n", before, after, folder.c_str());
  if (!(after < 0.3 * before)) throw hg::CollectiveError("it did not learn: held-out loss " + std::to_string(after));
}
