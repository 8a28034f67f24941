// optimise: 0
// A network inside an expression: gradients with respect to its input, finite differences in double on every mesh.
#include <doctest/doctest.h>

#include <cmath>
#include <halogen/halogen.hpp>
#include <vector>

#include "support/grid.hpp"

namespace {

using support::Grid;
using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Model = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<2, 4>, hg::ReLU,
                             hg::Conv2d<4, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, Globe>>;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
constexpr hg::index_t height = 12, width = 18, count = 2 * 2 * height * width;

std::vector<double> numbers() {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(2 * hg::uniform_at(9, 1, static_cast<std::uint64_t>(i)) - 1);
  return values;
}

}  // namespace

TEST_CASE("the gradient of an expression of a network's output with respect to its input") {
  const auto parameters = hg::initial_parameters<Model, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto make = [&](const std::vector<double>& values) {
      return hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, values);
    };
    const auto loss = [&](auto x) {
      const auto y = hg::infer(parameters, 0.5 * x);
      return hg::mean(hg::sin(y) * hg::shift<3, 1>(y)) + hg::mean(x * x);
    };
    auto f = hg::value_and_grad(loss);
    const auto [value, gradient] = f(make(numbers()));
    const auto whole = hg::full_tensor(gradient);
    for (std::size_t i = 3; i < static_cast<std::size_t>(count); i += 97) {
      double moved[2];
      for (int side = 0; side < 2; ++side) {
        auto x = numbers();
        x[i] += side ? 1e-5 : -1e-5;
        auto shifted = hg::value_and_grad(loss);
        moved[side] = std::get<0>(shifted(make(x)));
      }
      CHECK(whole[i] == doctest::Approx((moved[1] - moved[0]) / 2e-5).epsilon(1e-5).scale(1e-3));
    }
    CHECK(std::isfinite(value));
  }
}
