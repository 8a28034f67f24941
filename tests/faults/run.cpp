// A small training that saves after each step, for faults_test.py: it goes on from what is there and prints where it
// ends.
//   fault_run FOLDER sync|async [SECONDS between steps [STEPS between saves, and tells of each batch]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <halogen/io/fit.hpp>
#include <thread>
#include "support/convolutions.hpp"

namespace {
using Mesh = hg::Mesh<"height">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
using Model = hg::Sequential<hg::Conv2d<1, 6>, hg::ReLU, hg::Conv2d<6, 1>>;
}  // namespace

int main(int argc, char** argv) try {
  hg::Environment env(argc, argv);
  const std::string folder = argc > 1 ? argv[1] : "", how = argc > 2 ? argv[2] : "";
  if (folder.empty() || (how != "sync" && how != "async")) {
    if (env.is_root()) std::fprintf(stderr, "fault_run FOLDER sync|async [SECONDS]\n");
    return 2;
  }
  const double pause = argc > 3 ? std::atof(argv[3]) : 0;
  const int every = argc > 4 ? std::atoi(argv[4]) : 1;
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1});
  const auto data = hg::batches(4, [&](hg::index_t i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    if (argc > 4) std::fprintf(stderr, "batch %lld\n", static_cast<long long>(i));
    Field<1> x(mesh, {1, 1, 13, 9}), y(mesh, {1, 1, 13, 9});
    x = hg::randn_like(x, {.seed = static_cast<std::uint64_t>(i)});
    y = 0.5 * x;
    return hg::Batch{x, y};
  });
  hg::Trainer<Model, hg::AdamW, Mesh, double> trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
  const auto history = hg::fit(
      trainer, hg::mse, data,
      {.epochs = 2,
       .progress = hg::Progress::none,
       .checkpoints = {.folder = folder, .every_steps = every, .keep_last = 2, .asynchronous = how == "async"}});
  if (env.is_root())
    std::printf("%s after %lld steps, loss %.17g\n", history.stopped ? "stopped" : "done",
                static_cast<long long>(trainer.optimizer_state().steps()), history.empty() ? 0 : history.back().loss);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fault_run: %s\n", error.what());
  return 1;
}
