// program: gradients_of_stages
// A stage of the user's own (examples/extending/implicit_diffusion.hpp): its values solve the equation that it states,
// its gradient is that of finite differences, on every mesh.
#include <doctest/doctest.h>

#include "../../../examples/extending/implicit_diffusion.hpp"
#include "support/array.hpp"
#include "support/refusal.hpp"

namespace test_array_own_stage {

using namespace support;

namespace {

using Columns = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<1>, hg::Shard<2>>;
constexpr double k = 0.7;

}  // namespace

TEST_CASE("a stage of one's own: its equation, its gradient, its words, under other nodes") {
  const Index<3> extents{4, 5, 6};
  const auto a = numbers<double>(extents, 41);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Columns>(mesh, a, way);
    const Columns v = implicit_diffusion(2.0 * u, k);
    const auto ends = hg::with_boundary<hg::ReplicateEdge, hg::Zero, hg::Zero>(v);
    const Columns back = v - k * (hg::shift<0, -1>(ends) - 2.0 * v + hg::shift<0, 1>(ends));
    CHECK(error(back, extents, [&](auto i) { return 2 * a(i); }) < 1e-13);

    const auto loss = [](auto x) {
      const auto mixed = implicit_diffusion(hg::sin(x), k);
      const auto bounded = hg::with_boundary<hg::Zero, hg::Zero, hg::Periodic>(mixed);
      return hg::mean(hg::square(hg::shift<2, 1>(bounded) - 0.3 * x) + hg::flip<0>(mixed) * x);
    };
    const auto [value, gradient] = hg::value_and_grad(loss)(u);
    for (const std::size_t i : {0u, 37u, 119u}) {
      double moved[2];
      for (int side = 0; side < 2; ++side) {
        auto b = a;
        b.values[i] += side == 1 ? 1e-5 : -1e-5;
        moved[side] = std::get<0>(hg::value_and_grad(loss)(field<Columns>(mesh, b, way)));
      }
      const auto whole = hg::full_tensor(gradient);
      CHECK(whole[i] == doctest::Approx((moved[1] - moved[0]) / 2e-5).epsilon(1e-7).scale(1e-3));
    }
    CHECK(std::isfinite(value));
    CHECK(hg::explain(implicit_diffusion(u, k) + u).find("implicit diffusion, nothing moves") != std::string::npos);
  });
}

TEST_CASE("a stage of one's own refuses what its kernel cannot do, on all ranks") {
  using Layers = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn, hg::dyn>, hg::Mesh<"z">, hg::Shard<0>>;
  const auto mesh = hg::device_mesh<hg::Mesh<"z">>(grid_world(), {-1});
  Layers u(mesh, {8, 3, 3});
  u = hg::randn_like(u, {.seed = 1});
  const std::string said = support::refusal<hg::CollectiveError>([&] { Layers(implicit_diffusion(u, k)); });
  CHECK(said.starts_with(mesh.size() > 1 ? "implicit_diffusion: the depth is cut" : ""));
  CHECK(said.empty() == (mesh.size() == 1));
}

}  // namespace test_array_own_stage
