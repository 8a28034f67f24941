// A body that was trained on one task is used for another: its parameters from a file, the body frozen and in
// evaluation while a new head is trained, then all of it tuned with a smaller rate. `14_transfer_learning [FILE]`
//
// links: halogen::io
#include <cstdio>
#include <filesystem>
#include <halogen/files.hpp>
#include <halogen/halogen.hpp>

using Mesh = hg::Mesh<"data", "height">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;

using Body = hg::Sequential<hg::Conv2d<1, 8, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm2d<8>, hg::SiLU,
                            hg::Conv2d<8, 8, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm2d<8>, hg::SiLU>;
using First = hg::Sequential<hg::Named<"body", Body>, hg::Named<"head", hg::Conv2d<8, 1>>>;
using Frozen =
    hg::Sequential<hg::Named<"body", hg::Frozen<hg::InEvaluation<Body>>>, hg::Named<"head", hg::Conv2d<8, 2>>>;
using Tuned = hg::Sequential<hg::Named<"body", hg::InEvaluation<Body>>, hg::Named<"head", hg::Conv2d<8, 2>>>;

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const hg::Communicator& world = env.world();
  auto mesh = hg::device_mesh<Mesh>(world, {1, -1});
  const std::filesystem::path file = argc > 1 ? argv[1] : "body" + std::to_string(world.size()) + ".safetensors";
  Field<1> x(mesh, {4, 1, 32, 32});
  x = hg::randn_like(x, {.seed = 1});
  const Field<1> smooth = (hg::shift<2, 1>(x) + x + hg::shift<2, -1>(x)) / 3.0f;

  hg::Trainer first(First{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 2});
  for (int i = 0; i < 30; ++i) first.step(hg::mse, x, smooth);
  hg::save_parameters(file, first.parameters(), world);

  const Field<2> both = hg::concatenate<1>(smooth, Field<1>(x - smooth));  // the new task
  hg::Trainer frozen(Frozen{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
  const auto loaded = hg::load_parameters(file, frozen.parameters(), world, {.skip = {"head.*"}});
  const double start = frozen.step(hg::mse, x, both).item();
  for (int i = 0; i < 60; ++i) frozen.step(hg::mse, x, both);

  hg::Trainer tuned(Tuned{}, hg::AdamW{.lr = 1e-3}, mesh);
  hg::copy_parameters(frozen.parameters(), tuned.parameters());  // all of it, by name
  const double head_alone = tuned.step(hg::mse, x, both).item();
  double all = head_alone;
  for (int i = 0; i < 60; ++i) all = tuned.step(hg::mse, x, both).item();
  if (env.is_root()) {
    std::printf("%zu tensors from the file; loss %.4f, by a new head %.4f, tuned %.4f\n", loaded.taken.size(), start,
                head_alone, all);
    std::filesystem::remove(file);
  }
  return head_alone < start && all < head_alone ? 0 : 1;
}
