// diffusion_unet_train: a step of DiffusionUNet on 1 x 3 x 256 x 256 with MSE and AdamW, told a noise level of 0.25.
#include "protocol.hpp"

namespace {

using Image = bench::Field<3>;
using Level = hg::Sharded<hg::Tensor<float, hg::dyn, 1>, bench::Mesh, hg::Replicate, hg::Replicate>;

void train(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  const hg::index_t height = options.size[0] == 0 ? 256 : options.size[0];
  const hg::index_t width = options.size[1] == 0 ? 256 : options.size[1];
  hg::Trainer trainer(hg::DiffusionUNet<3, 3>{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
  if (bench::writes_parameters(options, trainer.parameters())) return;
  const auto image = bench::numbers<Image>(mesh, {1, 3, height, width});
  const auto label = bench::numbers<Image>(mesh, {1, 3, height, width}, static_cast<std::uint32_t>(3 * height * width));
  const auto level = hg::distribute_tensor<Level>(mesh, {1, 1}, {0.25f});
  bench::measure_training(options, mesh.world(), [&] {
    return trainer.step(hg::mse, hg::Inputs{image, level}, label).item();
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
    if (options.name != "diffusion_unet_train") return false;
    train(options, mesh);
    return true;
  });
}
