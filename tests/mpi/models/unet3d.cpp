// timeout: 300
// program: volumes
// optimise: 1
// reads: convolutions
// Networks of volumes: MaxPool3d and the U-Net of models/ against PyTorch; the same training on every mesh, however its
// dimensions are put to the field's; what a step sends, as the layout says and by a formula.
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/stored.hpp"

namespace test_unet3d {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Zero, hg::Periodic>;
using Net = hg::UNet3d<2, 1, 1, Globe, 1>;
using support::relative_error;
using support::VolumeMesh;

template <int Channels, class Pool>
void check_pool(int number) {
  support::check_stored_maxima<Pool, Channels, 4>("maxpool3d", number);
}

}  // namespace

TEST_CASE("max pooling: whole windows, overlaps, gaps, ties, boxes") {
  ONLY_ON_RANKS(1, 2, 4);
  check_pool<2, hg::MaxPool3d<2>>(0);
  check_pool<1, hg::MaxPool3d<3, hg::Stride<2>>>(1);
  check_pool<1, hg::MaxPool3d<3, hg::Kernel<3, 2, 3>, hg::Stride<1>>>(2);
  check_pool<1, hg::MaxPool3d<2, hg::Kernel<1, 2, 2>, hg::Stride<1, 2, 3>>>(3);
  check_pool<1, hg::MaxPool3d<3, hg::Stride<2>, hg::Padding<1>>>(5);
  check_pool<1,
             hg::MaxPool3d<3, hg::Kernel<3, 2, 3>, hg::Stride<1, 2, 1>, hg::Padding<1, 0, 1>, hg::Dilation<2, 3, 1>>>(
      6);
  check_pool<1, hg::MaxPool3d<2, hg::Stride<3, 2, 2>>>(4);
}

TEST_CASE("names, shapes, forward, loss and gradients are PyTorch's") {
  const support::Reference net("unet3d");
  const auto& parameters = hg::Parameters<Net, double>::graph().parameters;
  const auto names = hg::parameter_names<Net>();
  for (int i = 0; i < parameters.size(); ++i)
    CHECK(std::vector<std::int64_t>(parameters[i].shape, parameters[i].shape + parameters[i].rank) ==
          net.shape(names[static_cast<std::size_t>(i)]));
  support::on_meshes<Net, 2>(std::array<hg::index_t, 4>{2, 8, 9, 12}, [&](const auto& mesh) {
    const auto result =
        support::train_once<Net, 2, 1, hg::MeanSquaredError>(mesh, {2, 8, 9, 12}, support::all_parameters<Net>(net, ""),
                                                             net.values("input"), {8, 9, 12}, net.values("target"));
    CHECK(relative_error(result.output, net.values("output")) < 1e-11);
    CHECK(relative_error(std::vector<double>{result.loss}, net.values("loss")) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, support::all_parameters<Net>(net, "gradient.")) < 1e-10);
  });
}

namespace {

/// Losses of three steps with weights, and the prediction after them.
template <class Model, hg::Placement... Placements>
std::vector<double> train(const hg::DeviceMesh<VolumeMesh>& mesh) {
  using Image = hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn, hg::dyn, hg::dyn>, VolumeMesh, Placements...>;
  using Label = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn, hg::dyn>, VolumeMesh, Placements...>;
  constexpr std::size_t points = 2 * 24 * 24 * 23;
  const auto image = hg::distribute_tensor<Image>(mesh, {2, 2, 24, 24, 23}, support::numbers<double>(2 * points, 1));
  const auto label = hg::distribute_tensor<Label>(mesh, {2, 1, 24, 24, 23}, support::numbers<double>(points, 2));
  std::vector<double> weights = support::numbers<double>(points, 3);
  for (double& w : weights) w += 1;
  const auto weight = hg::distribute_tensor<Label>(mesh, {2, 1, 24, 24, 23}, weights);
  hg::Trainer<Model, hg::AdamW, VolumeMesh, double> trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 5});
  std::vector<double> results;
  for (int step = 0; step < 3; ++step) results.push_back(trainer.step(hg::mse, image, label, weight).item());
  const std::vector<double> prediction = hg::full_tensor(trainer.predict(image));
  results.insert(results.end(), prediction.begin(), prediction.end());
  return results;
}

/// Two levels: with three a dimension of six pieces needs 21 planes.
using Small = hg::Sequential<hg::UNetBlock<2, 2, Globe, 1>,
                             hg::UNetLevel<hg::Sequential<hg::UNetBlock<2, 4, Globe, 2>>, 3>, hg::Conv3d<6, 1>>;

}  // namespace

TEST_CASE("training is the same on any mesh") {
  const std::vector<double> single =
      train<Small, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>, hg::Shard<4>>(support::alone<VolumeMesh>());
  CHECK(single[2] < single[0]);
  for (const auto& mesh : support::volume_meshes(2)) {
    CAPTURE(support::text(mesh));
    CHECK(relative_error(train<Small, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>, hg::Shard<4>>(mesh), single) < 1e-10);
  }
}

TEST_CASE("two mesh dimensions cut the depth, one the width, one nothing") {
  const std::vector<double> single =
      train<Small, hg::Replicate, hg::Shard<2>, hg::Shard<4>, hg::Shard<2>>(support::alone<VolumeMesh>());
  for (const auto& mesh : support::volume_meshes(2)) {
    CAPTURE(support::text(mesh));
    CHECK(relative_error(train<Small, hg::Replicate, hg::Shard<2>, hg::Shard<4>, hg::Shard<2>>(mesh), single) < 1e-10);
  }
}

TEST_CASE("inside an expression: the gradient with respect to the input") {
  using Model = hg::Sequential<hg::Conv3d<2, 4, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<2, 4>,
                               hg::Conv3d<4, 1, hg::Kernel<3>, hg::Padding<1>>>;
  using Field = support::Volume<double, 2>;
  const auto parameters = hg::initial_parameters<Model, double>(3);
  const auto x = support::numbers<double>(2 * 2 * 12 * 12 * 11, 1);
  const auto loss_and_gradient = [&](const auto& mesh, const std::vector<double>& values) {
    const auto field = hg::distribute_tensor<Field>(mesh, {2, 2, 12, 12, 11}, values);
    auto f = hg::value_and_grad([&](auto v) {
      const auto y = hg::infer(parameters, 0.5 * v);
      return hg::mean(hg::sin(y) * hg::shift<4, 1>(y));
    });
    const auto [loss, gradient] = f(field);
    return std::pair{static_cast<double>(loss), hg::full_tensor(gradient)};
  };
  const auto alone = support::alone<VolumeMesh>();
  const auto [loss, gradient] = loss_and_gradient(alone, x);
  const auto of = [&](const std::vector<double>& values) { return loss_and_gradient(alone, values).first; };
  CHECK(support::slope_error(of, x, gradient, support::numbers<double>(x.size(), 2)) < 1e-6);
  for (const auto& mesh : support::volume_meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto here = loss_and_gradient(mesh, x);
    CHECK(here.first == doctest::Approx(loss).epsilon(1e-12));
    CHECK(relative_error(here.second, gradient) < 1e-12);
  }
}

TEST_CASE("a formula on paper: 24 x 16 x 64 on 2 x 2 in depth and width, periodic in width") {
  ONLY_ON_RANKS(4);
  constexpr int in = 3, base = 8;
  using Model = hg::UNet3d<in, 1, base, Globe, 8>;
  const auto mesh = hg::device_mesh<VolumeMesh>(support::world(), {1, 2, 1, 2});
  const support::Volume<double, in> image(mesh, {1, in, 24, 16, 64});
  const support::Volume<double, 1> label(mesh, {1, 1, 24, 16, 64});
  hg::Trainer<Model, hg::AdamW, VolumeMesh, double> trainer(Model{}, hg::AdamW{}, mesh);
  trainer.step(hg::mse, image, label).item();
  const hg::CommStatistics before = hg::comm_stats();
  const auto step = trainer.step(hg::mse, image, label);
  step.item();
  const hg::CommStatistics spent = hg::comm_stats() - before;
  // As in traffic.cpp, where the width is cut on the grid of tiles; depth has no tiles: of d planes of h rows: a plane
  // to the rank above or below, a column each way around the globe, and edges to the rank across.
  const auto ring = [](std::int64_t d, std::int64_t h, std::int64_t w) { return h * (w + 2 * d + 2); };
  const std::int64_t fine = in + 4 * base + 3 * base;
  const std::int64_t middle = base + 4 * 2 * base + 4 * 2 * base;
  const std::int64_t coarse = 2 * base + 2 * 4 * base + 2 * 4 * base;
  CHECK(spent.messages.count == 3 * (13 + 9));
  CHECK(spent.messages.bytes == 8 * (fine * ring(12, 16, 32) + middle * ring(6, 8, 16) + coarse * ring(3, 4, 8)));
  CHECK(spent.messages.bytes == step.layout().traffic().bytes);
}

}  // namespace test_unet3d
