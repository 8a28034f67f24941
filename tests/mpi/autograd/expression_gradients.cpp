// program: gradients_of_reductions
// Gradients of expressions with respect to fields: finite differences in double, the adjoint identity, every mesh.
//

#include <doctest/doctest.h>

#include <cmath>
#include <halogen/array_language.hpp>
#include <vector>

#include "support/grid.hpp"

namespace test_expression_gradients {

namespace {

using support::Grid;
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
constexpr int height = 9, width = 11, count = height * width;

support::Meshes<Grid> meshes() { return support::grids(); }

std::vector<double> numbers(int stream) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i)
    values.push_back(2 * hg::uniform_at(3, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(i)) - 1);
  return values;
}

Plane field(const hg::DeviceMesh<Grid>& mesh, const std::vector<double>& values) {
  return hg::distribute_tensor<Plane>(mesh, {height, width}, values);
}

/// Largest difference between the gradient and central differences at every seventh point.
template <class Loss>
double worst_difference(const hg::DeviceMesh<Grid>& mesh, Loss loss) {
  auto f = hg::value_and_grad(loss);
  const std::vector<double> a = numbers(1), b = numbers(2);
  const auto [value, da, db] = f(field(mesh, a), field(mesh, b));
  const std::vector<double> gradient[2] = {hg::full_tensor(da), hg::full_tensor(db)};
  double worst = std::isfinite(value) ? 0 : 1e300;
  for (int which = 0; which < 2; ++which)
    for (int i = 0; i < count; i += 7) {
      double moved[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<double> x = which == 0 ? a : b;
        x[static_cast<std::size_t>(i)] += side == 0 ? -1e-5 : 1e-5;
        const auto u = field(mesh, which == 0 ? x : a), v = field(mesh, which == 1 ? x : b);
        // the loss alone, as an expression of the fields themselves
        moved[side] = loss(u, v).item();
      }
      worst = std::max(worst, std::abs((moved[1] - moved[0]) / 2e-5 - gradient[which][static_cast<std::size_t>(i)]));
    }
  return worst;
}

}  // namespace

TEST_CASE("a periodic and zero bounded stencil of two fields") {
  for (const auto& mesh : meshes()) {
    const Plane target = field(mesh, numbers(3));
    CHECK(worst_difference(mesh, [&](auto a, auto b) {
            const auto u = hg::with_boundary<hg::Zero, hg::Periodic>(a);
            const auto v = hg::with_boundary<hg::Zero, hg::Periodic>(b);
            const auto step = u + 0.1 * (hg::shift<0, 1>(u) + hg::shift<0, -1>(u) + hg::shift<1, 1>(u) +
                                         hg::shift<1, -2>(u) - 4.0 * u);
            return hg::mean(hg::square(step * hg::exp(hg::shift<1, 1>(v)) - target) +
                            hg::tanh(v) / (2.0 + hg::square(hg::shift<0, 2>(u))));
          }) < 1e-9);
  }
}

TEST_CASE("every pointwise function, branches, products of shifts") {
  for (const auto& mesh : meshes()) {
    CHECK(worst_difference(mesh, [&](auto u, auto v) {
            const auto p = 2.0 + u;
            const auto q = hg::shift<0, 1>(v) - hg::shift<1, -1>(u);
            return hg::sum(hg::log(p) * hg::sqrt(p) + hg::sin(q) * hg::cos(v) - hg::abs(v) +
                           hg::maximum(u, v) * hg::minimum(u, 0.3) + hg::where(u > v, q * q, -q) / p +
                           hg::cast<double>(hg::square(q)));
          }) < 1e-7);
  }
}

TEST_CASE("the adjoint identity of a linear stencil") {
  for (const auto& mesh : meshes()) {
    const Plane x = field(mesh, numbers(4)), y = field(mesh, numbers(5));
    const auto linear = [](auto u) {
      return 2.0 * hg::shift<0, -3>(u) - hg::shift<1, 2>(u) + hg::shift<0, 1>(hg::shift<1, 1>(u));
    };
    auto f = hg::value_and_grad([&](auto v) {
      return hg::dot(linear(hg::with_boundary<hg::Periodic, hg::Zero>(v)),
                     hg::with_boundary<hg::Periodic, hg::Zero>(y));
    });
    const auto [forward, adjoint] = f(x);  // <L x, y> and L' y
    CHECK(hg::dot(x, adjoint).item() == doctest::Approx(forward).epsilon(1e-12));
  }
}

TEST_CASE("descent through 50 steps finds the initial condition again") {
  const auto mesh = meshes().front();
  const Plane truth = field(mesh, numbers(6));
  const auto step = [](auto u) { return u - 0.2 * (u - hg::shift<1, -1>(u)); };  // upwind advection
  Plane observed = truth;
  for (int t = 0; t < 10; ++t) observed = step(hg::with_boundary<hg::Zero, hg::Periodic>(observed));
  // The adjoint of ten steps, one step at a time: d(sum(step(v) * cotangent))/dv is the transposed step.
  Plane guess(mesh, {height, width});
  double first = 0, last = 0;
  for (int iteration = 0; iteration < 60; ++iteration) {
    Plane end = guess;
    for (int t = 0; t < 10; ++t) end = step(hg::with_boundary<hg::Zero, hg::Periodic>(end));
    Plane cotangent = end - observed;
    last = hg::sum(hg::square(cotangent)).item();
    if (iteration == 0) first = last;
    for (int t = 0; t < 10; ++t) {
      auto transposed = hg::value_and_grad(
          [&](auto v) { return hg::dot(step(hg::with_boundary<hg::Zero, hg::Periodic>(v)), cotangent); });
      cotangent = std::get<1>(transposed(guess));
    }
    guess = guess - 0.9 * cotangent;
  }
  CHECK(last < 0.01 * first);
}

}  // namespace test_expression_gradients
