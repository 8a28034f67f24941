// program: compositions
// A network's results do not depend on how mesh dimensions are put to tensor dimensions: replicated, hierarchical,
// transposed.
#include <doctest/doctest.h>

#include "support/alone.hpp"
#include "support/network.hpp"

namespace test_placements {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Model =
    hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<4, 2>, hg::UpsampleToSkip<hg::Nearest>>>,
                   Conv<6, 1>>;
constexpr hg::index_t batch = 2, height = 22, width = 23;  // no piece is empty on 6 ranks

struct Results {
  double loss;
  std::vector<double> gradient, prediction, inference;
};

/// The same for any placements: loss, gradient and prediction of one step, and inference.
template <hg::Placement... Placements>
Results run(const hg::DeviceMesh<support::Mesh>& mesh) {
  using Image = hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn, hg::dyn>, support::Mesh, Placements...>;
  using Label = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, support::Mesh, Placements...>;
  constexpr std::size_t points = batch * height * width;
  const auto image =
      hg::distribute_tensor<Image>(mesh, {batch, 2, height, width}, support::numbers<double>(2 * points, 1));
  const auto label = hg::distribute_tensor<Label>(mesh, {batch, 1, height, width}, support::numbers<double>(points, 2));
  std::vector<double> weights = support::numbers<double>(points, 3);
  for (double& w : weights) w += 1;
  const auto weight = hg::distribute_tensor<Label>(mesh, {batch, 1, height, width}, weights);
  const auto parameters = hg::initial_parameters<Model, double>(5);
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });
  auto [loss, gradient] = step(parameters);
  hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, hg::AdamW{}, mesh, {.seed = 5});
  const auto result = trainer.step(hg::mse, image, label, weight);
  CHECK(result.item() == loss);
  return {loss, hg::redistribute<hg::Replicate>(gradient).to_host(), hg::full_tensor(result.prediction()),
          hg::full_tensor(hg::infer(parameters, image))};
}

const Results& single() {
  static const Results results = run<hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>(support::alone());
  return results;
}

/// On every mesh a x b x c of the started ranks.
template <hg::Placement... Placements>
void check() {
  const int ranks = support::world().size();
  int ran = 0;
  for (int a = 1; a <= ranks; ++a)
    for (int b = 1; b <= ranks; ++b) {
      if (ranks % (a * b) != 0) continue;
      const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {a, b, ranks / (a * b)});
      CAPTURE(support::text(mesh));
      try {
        const Results here = run<Placements...>(mesh);
        CHECK(std::abs(here.loss - single().loss) < 1e-12 * single().loss);
        CHECK(support::relative_error(here.gradient, single().gradient) < 1e-12);
        CHECK(support::relative_error(here.prediction, single().prediction) < 1e-12);
        CHECK(here.inference == here.prediction);
        ++ran;
      } catch (const hg::CollectiveError& error) {
        if (std::string(error.what()).find("without any sample") == std::string::npos) throw;
      }
    }
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("batch, height, width") { check<hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>(); }
TEST_CASE("width, batch, height") { check<hg::Shard<3>, hg::Shard<0>, hg::Shard<2>>(); }
TEST_CASE("a replicated dimension: its ranks compute the same") { check<hg::Replicate, hg::Shard<2>, hg::Shard<3>>(); }
TEST_CASE("two mesh dimensions cut the height") { check<hg::Shard<2>, hg::Shard<3>, hg::Shard<2>>(); }
TEST_CASE("everything replicated but the width") { check<hg::Replicate, hg::Shard<3>, hg::Replicate>(); }

}  // namespace test_placements
