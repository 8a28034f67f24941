// The U-Net of the bench as a user trains it: one file, one step, one prediction.
#include <halogen/halogen.hpp>

using Mesh = hg::Mesh<"height", "width">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const Image image(mesh, {1, 3, 64, 64}), label(mesh, {1, 3, 64, 64});
  hg::Trainer trainer(hg::UNet<3, 3, 16>{}, hg::AdamW{.lr = 1e-3}, mesh);
  const double loss = trainer.step(hg::mse, image, label).item();
  return loss > 0 && trainer.predict(image).extent(2) == 64 ? 0 : 1;
}
