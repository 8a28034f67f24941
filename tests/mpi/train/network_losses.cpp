// program: compositions
// Losses of networks written in the array language: gradients with respect to parameters of one and of several networks
// and to fields, beside mse's own and beside finite differences, on every mesh; and how often a network runs.
#include <doctest/doctest.h>

#include <cmath>
#include <halogen/halogen.hpp>
#include <string>
#include <vector>

#include "support/grid.hpp"
#include "support/kokkos_events.hpp"

namespace test_network_losses {

namespace {

using support::Grid;
using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Model = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<2, 4>, hg::Tanh,
                             hg::Conv2d<4, 2, hg::Kernel<3>, hg::Padding<1>, Globe>>;
using Small = hg::Sequential<hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>>, hg::Tanh>;
template <class T>
using Field = hg::Sharded<hg::Tensor<T, hg::dyn, 2, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
constexpr hg::index_t height = 11, width = 11, count = 2 * 2 * height * width;

template <class T>
Field<T> drawn(const hg::DeviceMesh<Grid>& mesh, int stream) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i)
    values.push_back(
        static_cast<T>(2 * hg::uniform_at(9, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(i)) - 1));
  return hg::distribute_tensor<Field<T>>(mesh, {2, 2, height, width}, values);
}

/// The whole gradient of parameters on the host.
template <class Gradient>
auto whole(const Gradient& gradient) {
  return hg::redistribute<hg::Replicate>(gradient).to_host();
}

/// Largest difference between a gradient and central differences of value(parameters), at some of them.
template <class P, class Value>
double difference(const std::vector<double>& gradient, const P& parameters, Value value) {
  double worst = 0;
  for (std::size_t i = 0; i < gradient.size(); i += 5) {
    const auto at = [&](double step) {
      auto values = parameters.to_host();
      values[i] += step;
      P moved;
      moved.copy_from_host(values);
      return static_cast<double>(value(moved));
    };
    worst = std::max(worst, std::abs((at(1e-5) - at(-1e-5)) / 2e-5 - gradient[i]));
  }
  return worst;
}

/// Launches of f whose label has `part`.
template <class F>
int launches(const std::string& part, F f) {
  int number = 0;
  for (const auto& [label, times] : support::kokkos_events(f).launches)
    if (label.find(part) != std::string::npos) number += times;
  return number;
}

}  // namespace

TEST_CASE("a weighted square written in the array language has the gradient of mse, to rounding") {
  const auto parameters = hg::initial_parameters<Model, double>(3);
  for (const auto& mesh : support::grids()) {
    const auto x = drawn<double>(mesh, 1), y = drawn<double>(mesh, 2);
    auto built_in = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
    auto written = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(x) - y)); });
    const auto [a, da] = built_in(parameters);
    const auto [b, db] = written(parameters);
    CHECK(b == doctest::Approx(a).epsilon(1e-13));
    const auto expected = whole(da), own = whole(db);
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(own[i] == doctest::Approx(expected[i]).epsilon(1e-11).scale(1e-3));
  }
}

TEST_CASE("any loss of one network: finite differences, and the network runs once each way") {
  const auto parameters = hg::initial_parameters<Model, double>(4);
  for (const auto& mesh : support::grids()) {
    const auto x = drawn<double>(mesh, 1), y = drawn<double>(mesh, 2), w = drawn<double>(mesh, 3);
    using One = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
    const One thin = hg::sum<1>(w, hg::keep_dimensions) + 3.0;  // of one channel beside two
    const auto value = [&](const auto& out) {
      return hg::mean(hg::square(w) * hg::square(out - y)) + 0.1 * hg::norm(hg::shift<3, 1>(out) - out) +
             hg::logsumexp(out) * hg::var(out) +
             hg::mean(thin * (hg::logsumexp<1>(out, hg::keep_dimensions) - hg::sum<1>(y * out, hg::keep_dimensions))) +
             hg::dice(hg::sigmoid(out), hg::where(y > 0.0, 1.0, 0.0));
    };
    auto step = hg::value_and_grad([&](auto net) {
      const auto out = net(x);
      return value(out);
    });
    const auto [loss, gradient] = step(parameters);
    const auto p = hg::full_tensor(w), t = hg::full_tensor(y);
    double dice = 0;  // in plain loops: each of 2 samples and 2 channels
    for (std::size_t plane = 0; plane < 4; ++plane) {
      double both = 0, either = 0;
      for (std::size_t i = plane * height * width; i < (plane + 1) * height * width; ++i)
        both += t[i] > 0 ? p[i] : 0, either += p[i] + (t[i] > 0);
      dice += (1 - (2 * both + 0.5) / (either + 0.5)) / 4;
    }
    const auto label = hg::where(y > 0.0, 1.0, 0.0);
    CHECK(hg::dice(w, label, {.smooth = 0.5}).item() == doctest::Approx(dice).epsilon(1e-12));
    CHECK(hg::sum(hg::dice_each(w, label, 0.5)).item() == doctest::Approx(4 * dice).epsilon(1e-12));
    // a weight of 2 everywhere is a smooth of half as much, and points of weight 0 do not count
    const One even =
        hg::where(hg::remainder(hg::cast<double>(hg::global_index<3>(thin)), 2.0) == 0.0, 1.0, 0.0) + 0.0 * thin;
    CHECK(hg::dice(w, label, 0.0 * thin + 2.0, {.smooth = 1}).item() == doctest::Approx(dice).epsilon(1e-12));
    CHECK(hg::dice(w, label, even, {.smooth = 0.5}).item() ==
          doctest::Approx(hg::dice(w * hg::expand<1>(even), label * hg::expand<1>(even), {.smooth = 0.5}).item())
              .epsilon(1e-12));
    const auto of = [&](const auto& moved) {
      const Field<double> out = hg::infer(moved, x);
      return value(out).item();
    };
    CHECK(loss == doctest::Approx(of(parameters)).epsilon(1e-12));
    const auto own = whole(gradient);  // once: it is summed in its memory
    CHECK(difference(own, parameters, of) < 1e-7);
    const auto again = step(parameters);
    CHECK(std::get<0>(again) == loss);
    CHECK(whole(std::get<1>(again)) == own);
    const int of_step = launches("weight_gradient", [&] { step(parameters); });
    auto one = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
    one(parameters);
    if (mesh.size() == 1)  // between ranks tiles are launched as halos arrive
      CHECK(of_step == launches("weight_gradient", [&] { one(parameters); }));
    CHECK(of_step > 0);
    CHECK(launches("halogen::affine", [&] { step(parameters); }) ==
          launches("halogen::affine", [&] { one(parameters); }));
  }
}

TEST_CASE("several networks and fields in one expression, one applied twice, one to the other's output") {
  const auto first = hg::initial_parameters<Model, double>(5);
  const auto second = hg::initial_parameters<Small, double>(6);
  for (const auto& mesh : support::grids()) {
    const auto x = drawn<double>(mesh, 1), y = drawn<double>(mesh, 2);
    const auto value = [&](const auto& f, const auto& g, const auto& u) {
      const auto inner = f(u);
      return hg::mean(hg::square(g(inner + 0.5 * u) - y)) + hg::mean(hg::sin(f(y)) * inner) + 0.3 * hg::mean(u * u);
    };
    auto step = hg::value_and_grad([&](auto f, auto g, auto u) { return value(f, g, u); });
    const auto [loss, of_first, of_second, of_field] = step(first, second, x);
    const auto at = [&](const auto& p, const auto& q, const Field<double>& u) {
      const auto f = [&](const auto& in) { return hg::infer(p, hg::as_expression(in)); };
      const auto g = [&](const auto& in) { return hg::infer(q, hg::as_expression(in)); };
      return value(f, g, u).item();
    };
    CHECK(loss == doctest::Approx(at(first, second, x)).epsilon(1e-12));
    CHECK(difference(whole(of_first), first, [&](const auto& p) { return at(p, second, x); }) < 1e-7);
    CHECK(difference(whole(of_second), second, [&](const auto& q) { return at(first, q, x); }) < 1e-7);
    const auto slope = hg::full_tensor(of_field);
    const auto values = hg::full_tensor(x);
    for (std::size_t i = 2; i < slope.size(); i += 31) {
      const auto moved = [&](double by) {
        auto all = values;
        all[i] += by;
        return at(first, second, hg::distribute_tensor<Field<double>>(mesh, {2, 2, height, width}, all));
      };
      CHECK(std::abs((moved(1e-5) - moved(-1e-5)) / 2e-5 - slope[i]) < 1e-7);
    }
  }
}

TEST_CASE("a network of floats under a loss in double") {
  const auto parameters = hg::initial_parameters<Small, float>(7);
  for (const auto& mesh : support::grids()) {
    const auto x = drawn<float>(mesh, 1), y = drawn<float>(mesh, 2);
    auto step = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(hg::cast<double>(net(x)) - y)); });
    const auto [loss, gradient] = step(parameters);
    auto one = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
    const auto [expected, its] = one(parameters);
    CHECK(loss == doctest::Approx(expected).epsilon(1e-5));
    const auto a = whole(gradient), b = whole(its);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4).scale(1e-2));
  }
}

}  // namespace test_network_losses
