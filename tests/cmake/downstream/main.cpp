// A program outside Halogen, with its own model: it trains three steps on a random field, cut over the ranks there are.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <halogen/halogen.hpp>
#include <random>
#include <vector>

#include "extending/attention.hpp"
#include "extending/bilateral.hpp"
#include "extending/field_norm.hpp"
#include "extending/gate.hpp"
#include "extending/transpose.hpp"

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;

// Layers as members.
struct Residual : hg::Module<Residual> {
  hg::Conv2d<8, 8, hg::Kernel<3>, hg::Padding<1>, Globe> conv;
  hg::GroupNorm<4, 8> norm;
  constexpr hg::Traced forward(hg::Traced x) const { return hg::concat(x, hg::ReLU{}(norm(conv(x)))); }
};

// Layers in a row, some of them from outside the library.
struct Model : hg::Sequential<hg::Conv2d<2, 8, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::Named<"body", Residual>,
                              hg::Named<"gated", GatedConv<16, 4>>, hg::Conv2d<4, 4>, FieldNorm,
                              BilateralSmoothing<Globe>, hg::Named<"head", hg::Conv2d<4, 1, hg::Kernel<1>>>> {};

using Mesh = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

constexpr hg::index_t height = 21, width = 30;

template <int Channels>
Field<Channels> random_field(const hg::DeviceMesh<Mesh>& mesh, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> values(Channels * height * width);
  for (float& value : values) value = static_cast<float>(bits()) / 4294967296.f - 0.5f;
  return hg::distribute_tensor<Field<Channels>>(mesh, {1, Channels, height, width}, values);
}

// A function of the array language over all points, whose rows alone are cut.
using Attentive = hg::Sequential<hg::Conv2d<2, 4>, hg::Residual<SelfAttention<4, 2>>, Transpose, hg::Conv2d<4, 1>>;
using Line = hg::Mesh<"height">;
template <int Channels>
using RowField = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;

double attend(const hg::Environment& env) {
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  const RowField<2> image(mesh, {1, 2, 9, 9});
  const RowField<1> label(mesh, {1, 1, 9, 9});
  hg::Trainer trainer(Attentive{}, hg::AdamW{}, mesh, {.seed = 3});
  return trainer.step(hg::mse, image, label).item();
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const auto image = random_field<2>(mesh, 1);
  const auto label = random_field<1>(mesh, 2);
  if (env.is_root()) std::printf("downstream: %s\n", env.describe().c_str());

  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
  double first = 0, last = 0;
  for (int step = 0; step < 3; ++step) {
    last = trainer.step(hg::mse, image, label).item();
    if (step == 0) first = last;
    if (env.is_root()) std::printf("loss %.17g\n", last);
  }
  const double attended = attend(env);
  if (env.is_root()) std::printf("attention %.17g\n", attended);
  return std::isfinite(attended) && std::isfinite(last) && last < first ? EXIT_SUCCESS : EXIT_FAILURE;
}
