// program: compositions
// A network inside an expression: gradients with respect to its input, finite differences in double on every mesh.
#include <doctest/doctest.h>

#include <cmath>
#include <halogen/halogen.hpp>
#include <limits>
#include <vector>

#include "support/grid.hpp"
#include "support/stored.hpp"

namespace test_network_output {

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

namespace {

/// Output and gradients from a cotangent, as a network inside an expression takes them.
template <class Net, int In, int Out>
support::Result<double> vjp(const hg::DeviceMesh<support::Mesh>& mesh, const std::vector<double>& parameters,
                            const std::vector<double>& input, const std::vector<double>& cotangent) {
  const auto image = hg::distribute_tensor<support::Field<double, In>>(mesh, {2, In, height, width}, input);
  const auto given = hg::distribute_tensor<support::Field<double, Out>>(mesh, {2, Out, height, width}, cotangent);
  hg::Parameters<Net, double> values;
  values.copy_from_host(parameters);
  hg::Network<Net, double> network;
  auto& evaluation = network.template evaluation<hg::PlanKind::vjp>(image);
  hg::Parameters<Net, double, hg::Partial<hg::Sum>> gradient("gradient", mesh.world());
  evaluation.forward(hg::detail::view_of(image), values.data());
  hg::detail::run_vjp(evaluation, gradient.data(), given);
  CHECK(hg::full_tensor(given) == cotangent);  // it is read where it lies
  return {hg::full_tensor(network.prediction(image, evaluation)),
          hg::full_tensor(network.input_gradient(image, evaluation)),
          hg::redistribute<hg::Replicate>(gradient).to_host(),
          values.to_host(),
          {height, width},
          0,
          {}};
}

/// The same gradients as a loss's that is the inner product with the cotangent, whose own gradient is stored.
template <class Net, int Out>
void check_vjp() {
  const auto parameters = support::numbers<double>(hg::Parameters<Net, double>::count, 1);
  const auto input = support::numbers<double>(2 * 2 * height * width, 2);
  const auto cotangent = support::numbers<double>(2 * Out * height * width, 3);
  const std::array<hg::index_t, 3> extents{2, height, width};
  support::on_meshes<Net, 2>(extents, [&](const auto& mesh) {
    const auto expected = support::unscaled(support::train_once<Net, 2, Out, support::InnerProduct>(
        mesh, extents, parameters, input, {height, width}, cotangent));
    const auto result = vjp<Net, 2, Out>(mesh, parameters, input, cotangent);
    CHECK(result.output == expected.output);
    CHECK(support::relative_error(result.input_gradient, expected.input_gradient) < 1e-13);
    CHECK(support::relative_error(result.parameter_gradient, expected.parameter_gradient) < 1e-13);
  });
}

template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;

}  // namespace

TEST_CASE("a given cotangent is read where it lies: by a window, a norm, a sum's terms") {
  check_vjp<Conv<2, 3>, 3>();
  check_vjp<hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU>, 4>();
  check_vjp<hg::Sequential<Conv<2, 4>, hg::Residual<hg::Sequential<Conv<4, 4>, hg::GroupNorm<2, 4>>>>, 4>();
  check_vjp<hg::Residual<hg::Sequential<Conv<2, 2>, hg::ReLU>>, 2>();
  check_vjp<hg::Residual<hg::Sequential<hg::Residual<Conv<2, 2>>, hg::ReLU>>, 2>();
}

TEST_CASE("one output in several regions, and one pullback called twice, are pulled from what forward made") {
  const auto parameters = hg::initial_parameters<Model, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const auto one = hg::grad([&](auto v) {
      const auto y = hg::infer(parameters, v);
      return hg::mean(hg::square(y) + 0.5 * hg::sin(y));
    })(x);
    const auto two = hg::grad([&](auto v) {
      const auto y = hg::infer(parameters, v);
      return hg::mean(hg::square(y)) + 0.5 * hg::mean(hg::sin(y));
    })(x);
    CHECK(support::relative_error(hg::full_tensor(two), hg::full_tensor(one)) < 1e-12);
    const auto [y, pullback] = hg::vjp([&](auto v) { return hg::infer(parameters, v) * 2.0; }, x);
    const auto first = pullback(y), second = pullback(y);
    CHECK(hg::full_tensor(std::get<0>(first)) == hg::full_tensor(std::get<0>(second)));
  }
}

TEST_CASE("an expression knows a network's extents without running it") {
  const auto parameters = hg::initial_parameters<Model, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const auto before = hg::comm_stats();
    const auto expression = 1.0 + hg::infer(parameters, 0.5 * x) * 2.0;
    CHECK(hg::comm_stats() == before);
    const Field half = 0.5 * x;
    const auto expected = hg::infer(parameters, half);
    for (int d = 0; d < 4; ++d) CHECK(expression.extent(d) == expected.extent(d));
    const std::decay_t<decltype(expected)> y = expression;
    auto values = hg::full_tensor(expected);
    for (double& value : values) value = 1.0 + value * 2.0;
    CHECK(hg::full_tensor(y) == values);
  }
}

TEST_CASE("a model of any channels takes those of the expression") {
  using Pool = hg::AvgPool2d<2>;
  const hg::Parameters<Pool, double> none;
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const auto g = hg::grad([&](auto v) { return hg::sum(hg::infer(none, hg::square(v))); })(x);
    const auto values = hg::full_tensor(x), whole = hg::full_tensor(g);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(whole[i] == doctest::Approx(values[i] / 2));
  }
}

TEST_CASE("backward reads the image that forward read, whatever has been computed since") {
  using Normed = hg::Sequential<hg::GroupNorm<1, 2>, hg::ReLU, hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>, Globe>>;
  const auto parameters = hg::initial_parameters<Normed, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const Field half = 0.5 * x;
    auto f = hg::value_and_grad([&](auto v) { return hg::mean(hg::square(hg::infer(parameters, 0.5 * v))); });
    auto g = hg::value_and_grad([&](auto v) { return hg::mean(hg::square(hg::infer(parameters, v))); });
    const auto [value, gradient] = f(x);
    const auto [same, expected] = g(half);
    CHECK(value == same);
    auto twice = hg::full_tensor(gradient);
    for (double& v : twice) v *= 2;
    CHECK(support::relative_error(twice, hg::full_tensor(expected)) < 1e-13);
  }
}

TEST_CASE("a gradient passes a ReLU of NaN, as torch.nn.functional.relu's") {
  using Clipped = hg::Sequential<hg::Conv2d<2, 3>, hg::ReLU>;
  const auto parameters = hg::initial_parameters<Clipped, double>(3);
  const auto weight = parameters.to_host(0);
  auto values = numbers();
  values[5] = std::numeric_limits<double>::quiet_NaN();  // of sample 0, channel 0
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, values);
    const auto whole = hg::full_tensor(hg::grad([&](auto v) { return hg::sum(hg::infer(parameters, v)); })(x));
    for (const std::size_t c : {0, 1})
      CHECK(whole[c * height * width + 5] == doctest::Approx(weight[c] + weight[2 + c] + weight[4 + c]));
  }
}

TEST_CASE("a forward pass without a backward one leaves nothing under way that the next one would read") {
  using Late = hg::Sequential<hg::Conv2d<2, 4>, hg::AvgPool2d<3, hg::Stride<1>, hg::Padding<1>>,
                              hg::Conv2d<4, 4, hg::Kernel<5>, hg::Padding<2>>, hg::ReLU, hg::Conv2d<4, 1>>;
  const auto parameters = hg::initial_parameters<Late, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const auto [y, pullback] = hg::vjp([&](auto v) { return hg::infer(parameters, v); }, x);
    const auto expected = hg::grad([&](auto v) {
      const auto z = hg::infer(parameters, v);
      return 0.5 * hg::sum(hg::square(z));
    })(x);
    const auto first = pullback(y);
    CHECK(support::relative_error(hg::full_tensor(std::get<0>(first)), hg::full_tensor(expected)) < 1e-12);
  }
}

TEST_CASE("channels that only the run knows are compared with the model's") {
  using Head = hg::Conv2d<3, 1>;
  using Pool = hg::AvgPool2d<2>;
  const auto parameters = hg::initial_parameters<Head, double>(3);
  const hg::Parameters<Pool, double> none;
  const hg::Parameters<hg::AvgPool2d<3, hg::Stride<1>, hg::Padding<1>>, double> nothing;
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers());
    const auto both = hg::concatenate<1>(x, x);
    const auto part = hg::slice<1>(both, 0, 4);
    CHECK_THROWS_WITH_AS(hg::sum(hg::infer(parameters, part)).item(), "dimension 1 has 4 points, but its type says 3",
                         hg::CollectiveError);
    CHECK_THROWS_AS(hg::sum(hg::infer(none, hg::cumulative_sum<2>(x))).item(), hg::CollectiveError);
    // a concatenation's channels are known, and a network's
    CHECK(hg::sum(hg::infer(none, both)).item() == doctest::Approx(2 * hg::sum(hg::infer(none, x)).item()));
    const auto g = hg::grad([&](auto v) { return hg::sum(hg::infer(none, hg::infer(nothing, v))); })(x);
    CHECK(hg::full_tensor(g)[5 * width + 5] == doctest::Approx(0.25));  // of nine means of nine, in means of four
  }
}

TEST_CASE("backward reads the image where it lies after other readers have made its margin grow") {
  using Normed = hg::Sequential<hg::GroupNorm<1, 2>, hg::ReLU, hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>, Globe>>;
  const auto parameters = hg::initial_parameters<Normed, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto loss = [&](auto v) { return hg::sum(hg::infer(parameters, v) * hg::shift<2, 3>(v)); };
    const auto fresh = [&] { return hg::distribute_tensor<Field>(mesh, {2, 2, height, width}, numbers()).clone(); };
    hg::empty_cache();  // else its buffer may have had that margin before
    const auto x = fresh();
    const auto first = hg::full_tensor(hg::grad(loss)(x)), second = hg::full_tensor(hg::grad(loss)(x));
    CHECK(first == second);
  }
}

}  // namespace test_network_output
