// The file of a project of two that holds the model. WIDTH stands for the change of one layer.
#include <halogen/network.hpp>

using Mesh = hg::Mesh<"height", "width">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;
template <int In, int Out>
using Block = hg::Sequential<hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<8, Out>, hg::ReLU>;
struct Model : hg::Sequential<Block<3, 16>, Block<16, WIDTH>, Block<WIDTH, 16>, hg::Conv2d<16, 3, hg::Kernel<1>>> {};

double train(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const Image image(mesh, {1, 3, 64, 64}), label(mesh, {1, 3, 64, 64});
  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh);
  return trainer.step(hg::mse, image, label).item();
}
