// A network learns a step of diffusion on the whole Earth, cut over all ranks: the same losses on any number of them.
#include <cstdio>
#include <halogen/halogen.hpp>
using Grid = hg::Mesh<"height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, 1, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;  // (1, 1, H/h, W/w)
using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // what lies beyond the poles, and across the date line
using Net = hg::Sequential<hg::Conv2d<1, 16, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<4, 16>, hg::ReLU,
                           hg::Conv2d<16, 1, hg::Kernel<3>, hg::Padding<1>, Globe>>;
int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});  // -1: as many as there are ranks
  Field now(mesh, {1, 1, 90, 180}), next(mesh, {1, 1, 90, 180});
  now = hg::randn_like(now, {.seed = 1});
  const auto u = hg::with_boundary<hg::Zero, hg::Zero, hg::Zero, hg::Periodic>(now);
  next = u + 0.1f * (hg::shift<2, 1>(u) + hg::shift<2, -1>(u) + hg::shift<3, 1>(u) + hg::shift<3, -1>(u) - 4.f * u);
  hg::Trainer trainer(Net{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 7});
  for (int step = 0; step < 20; ++step)
    if (const double loss = trainer.step(hg::mse, now, next).item(); env.is_root()) std::printf("%.4f\n", loss);
}
