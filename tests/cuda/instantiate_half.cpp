// Images of bfloat16, networks of volumes, and attention of points in a network.
#include "instantiate.hpp"

namespace instantiate {

void train_attention(const hg::Environment& env) {
  using Net = hg::Sequential<hg::Conv2d<3, 8>, hg::MultiheadAttention<8, 2, hg::Rotary<2>>, hg::Conv2d<8, 4>>;
  train_one_step<float, Net, 3, 4>(env, 12, 18, 12, 18);
}

void train_half(const hg::Environment& env) {
  train_one_step<hg::bfloat16, hg::UNet<7, 3, 16, Globe>, 7, 3>(env, 36, 70, 36, 70);
}

// A step of a trainer, and captured ones.
void train_volumes(const hg::Environment& env) {
  using Grid = hg::Mesh<"depth", "height">;
  using Volume =
      hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
  using Net = hg::Sequential<
      hg::Conv3d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>, hg::ReLU,
      hg::SkipConcat<hg::Sequential<hg::MaxPool3d<2>, hg::Conv3d<4, 2>, hg::UpsampleToSkip<hg::Nearest>>>,
      hg::Conv3d<6, 2, hg::Kernel<3, 1, 1>, hg::Padding<1, 0, 0>>>;
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  const Volume image(mesh, {1, 2, 8, 12, 14}), label(mesh, {1, 2, 8, 12, 14});
  Kokkos::deep_copy(label.storage().view, 1.f);
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh, {.seed = 1});
  const double loss = trainer.step(hg::mse, image, label).item();
  auto captured = trainer.capture(hg::mse, image, label);
  captured(), captured();
  const double fourth = captured().item();
  if (env.is_root()) std::printf("loss of volumes %.9g, of the fourth step %.9g\n", loss, fourth);
}

}  // namespace instantiate
