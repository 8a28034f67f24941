// program: networks
// reads: convolutions
// Networks of fields whose margins expressions have made grow, in batch and channels too: what they read and write is
// the field, wherever it lies in its buffer.
#include <doctest/doctest.h>

#include "support/array.hpp"
#include "support/convolutions.hpp"
#include "support/train_once.hpp"

namespace test_network_margins {

using namespace support;

namespace {

template <int Channels>
using Batch = hg::Sharded<hg::Tensor<double, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>,
                          hg::Shard<3>>;
using Net = hg::Sequential<hg::Conv2d<2, 3, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<1, 3>, hg::ReLU>;

/// Reads neighbours in all four dimensions, on either side.
template <class Field>
Field moved(const Field& u) {
  const auto p = hg::with_boundary<hg::Periodic, hg::Periodic, hg::Zero, hg::Periodic>(u);
  return u + hg::shift<0, -1>(p) + hg::shift<0, 1>(p) + hg::shift<1, -1>(p) + hg::shift<2, -1>(p) + hg::shift<3, -2>(p);
}

Meshes<Mesh> batch_meshes() {
  return {hg::device_mesh<Mesh>(world(), {-1, 1, 1}), hg::device_mesh<Mesh>(world(), {1, -1, 1})};
}

template <int Channels>
Batch<Channels> drawn(const hg::DeviceMesh<Mesh>& mesh, int stream) {
  return field<Batch<Channels>>(mesh, numbers<double>(Index<4>{12, Channels, 12, 7}, stream));
}

}  // namespace

TEST_CASE("a network of a field with margins in all dimensions is that of the field without") {
  for (const auto& mesh : batch_meshes()) {
    const auto parameters = hg::initial_parameters<Net, double>(3);
    const auto expected = hg::full_tensor(hg::infer(parameters, drawn<2>(mesh, 1)));
    const auto image = drawn<2>(mesh, 1);
    moved(image);
    CHECK(image.storage().margins[0].lo > 0);
    CHECK(image.storage().margins[1].lo > 0);
    CHECK(hg::full_tensor(hg::infer(parameters, image)) == expected);
    for (int again = 0; again < 3; ++again) {  // buffers of fields that died have margins
      auto prediction = hg::infer(parameters, drawn<2>(mesh, 1));
      CHECK(hg::full_tensor(prediction) == expected);
      moved(prediction);
    }
  }
}

TEST_CASE("so is a step of training, with label and weight, and a gradient from a cotangent") {
  for (const auto& mesh : batch_meshes()) {
    std::vector<double> losses[2], gradients[2];
    for (const bool grows : {false, true}) {
      const auto image = drawn<2>(mesh, 1);
      const auto label = drawn<3>(mesh, 2);
      const Batch<1> weight = hg::square(drawn<1>(mesh, 3));
      if (grows) moved(image), moved(label), moved(weight);
      hg::Trainer<Net, hg::AdamW, Mesh, double> trainer(Net{}, hg::AdamW{}, mesh);
      for (int t = 0; t < 3; ++t) losses[grows].push_back(trainer.step(hg::mse, image, label, weight).item());
      const auto [value, gradient] =
          hg::value_and_grad([&](auto x) { return hg::sum(hg::infer(trainer.parameters(), x) * label); })(image);
      gradients[grows] = hg::full_tensor(gradient);
    }
    CHECK(losses[0] == losses[1]);
    CHECK(gradients[0] == gradients[1]);
  }
}

TEST_CASE("copies of a partial gradient are sums over the same ranks") {
  const auto mesh = batch_meshes().front();
  const auto image = drawn<2>(mesh, 1);
  const auto label = drawn<3>(mesh, 2);
  const auto parameters = hg::initial_parameters<Net, double>(3);
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  const auto [loss, gradient] = step(parameters);
  const auto copy = gradient.clone();
  CHECK(gradient.zeros("zeros").summed_over().size() == mesh.size());
  CHECK(hg::redistribute<hg::Replicate>(copy).to_host() == hg::redistribute<hg::Replicate>(gradient).to_host());
  auto rank_0 = copy.to_host();
  const double own = rank_0[0];
  world().all_reduce(rank_0.data(), rank_0.size());
  CHECK(rank_0[0] == doctest::Approx(own * mesh.size()));
}

TEST_CASE("a field on a dry mesh has no neighbours to read") {
  const auto mesh = hg::dry_mesh<Grid>({4, 2}, 3);
  using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
  Plane u(mesh, {40, 40});
  const auto read = [&] { u = u + hg::shift<0, 1>(u); };
  CHECK_THROWS_AS(read(), hg::Error);
}

}  // namespace test_network_margins
