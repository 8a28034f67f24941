// A chain of DEPTH blocks, each of channels of its own, trained for a step: what one more layer costs the compiler.
#include <halogen/halogen.hpp>
#include <utility>

namespace {

using Mesh = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

template <class Indices>
struct ChainOf;
template <int... I>
struct ChainOf<std::integer_sequence<int, I...>> {
  using type = hg::Sequential<hg::Sequential<hg::Conv2d<8 + 8 * I, 16 + 8 * I, hg::Kernel<3>, hg::Padding<1>>,
                                             hg::GroupNorm<8, 16 + 8 * I>, hg::ReLU>...>;
};
struct Chain : ChainOf<std::make_integer_sequence<int, DEPTH>>::type {};

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const Field<8> image(mesh, {1, 8, 64, 64});
  const Field<8 + 8 * DEPTH> label(mesh, {1, 8 + 8 * DEPTH, 64, 64});
  hg::Trainer trainer(Chain{}, hg::AdamW{.lr = 1e-3}, mesh);
  return trainer.step(hg::mse, image, label).item() > 0 ? 0 : 1;
}
