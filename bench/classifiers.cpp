// Classifiers on 1 x 3 x 512 x 512, a step with MSE and AdamW: resnet18_train, torchvision's resnet18; convnext_train,
// its convnext_tiny without stochastic depth.
#include "protocol.hpp"

namespace {

using Image = bench::Field<3>;
using Scores = hg::Sharded<hg::Tensor<float, hg::dyn, 1000>, bench::Mesh, hg::Replicate, hg::Replicate>;

template <class Model>
void train(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  const hg::index_t height = options.size[0] == 0 ? 512 : options.size[0];
  const hg::index_t width = options.size[1] == 0 ? 512 : options.size[1];
  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
  if (bench::writes_parameters(options, trainer.parameters())) return;
  const auto image = bench::numbers<Image>(mesh, {1, 3, height, width});
  const auto label = bench::numbers<Scores>(mesh, {1, 1000}, static_cast<std::uint32_t>(3 * height * width));
  bench::measure_training(options, mesh.world(), [&] { return trainer.step(hg::mse, image, label).item(); });
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
    if (options.name == "resnet18_train")
      train<hg::ResNet<18>>(options, mesh);
    else if (options.name == "convnext_train")
      train<hg::ConvNeXt<>>(options, mesh);
    else
      return false;
    return true;
  });
}
