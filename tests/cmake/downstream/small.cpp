// A program outside Halogen with layers of the library: it trains two steps on a field that is cut over the ranks there
// are.
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>

namespace {
using Mesh = hg::Mesh<"height">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
using Model = hg::Sequential<hg::Conv2d<2, 8>, hg::GroupNorm<4, 8>, hg::ReLU, hg::Conv2d<8, 1>>;
}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1});
  Field<2> image(mesh, {1, 2, 21, 30});
  image = hg::randn_like(image, {.seed = 1});
  const Field<1> label(mesh, {1, 1, 21, 30});
  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
  const double first = trainer.step(hg::mse, image, label).item(), last = trainer.step(hg::mse, image, label).item();
  if (env.is_root()) std::printf("downstream: %s\nloss %.17g %.17g\n", env.describe().c_str(), first, last);
  return std::isfinite(last) && last < first ? 0 : 1;
}
