// program: extending
// ranks: 1 2 4
// Vectors of samples inside networks: on every mesh what one rank computes, gradients by finite differences, closed
// formulas, messages counted.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_vectors {

namespace {

template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>>;

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};

/// Channels that are scaled by what the whole field says.
struct SqueezeExcitation {
  Conv<2, 4> conv;
  hg::GlobalAvgPool pool;
  hg::Linear<4, 3> down;
  hg::ReLU relu;
  hg::Linear<3, 4, hg::Bias<false>> up;
  hg::Sigmoid sigmoid;
  hg::Map<Product> scale;
  Conv<4, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X y = conv(x);
    return last(scale(y, hg::expand(sigmoid(up(relu(down(pool(y))))), y)));
  }
};

/// A vector beside a map, below the finest level, and added to a map behind a norm.
struct Context {
  Conv<2, 3> conv;
  hg::MaxPool2d<2> pool;
  hg::GroupNorm<1, 3> norm;
  hg::GlobalAvgPool mean;
  hg::SiLU silu;
  hg::Linear<6, 3> inner;
  hg::Upsample<2> upsample;
  hg::Linear<3, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X y = norm(pool(conv(x)));
    const X v = silu(mean(y));
    return last(upsample(inner(hg::concat(y, hg::expand(v, y))) + hg::expand(v, y)));
  }
};

/// A classifier's head: pooled features of two resolutions.
struct Head {
  Conv<2, 4> first;
  hg::ReLU relu;
  hg::MaxPool2d<2> pool;
  Conv<4, 3> second;
  hg::GlobalAvgPool mean;
  hg::LayerNorm<7> norm;
  hg::Linear<7, 5> hidden;
  hg::GELU gelu;
  hg::Linear<5, 3> last;
  template <class X>
  constexpr X forward(X x) const {
    const X fine = relu(first(x)), coarse = second(pool(fine));
    const X v = hidden(norm(hg::concat(mean(fine), mean(coarse))));
    return last(gelu(v) + v);
  }
};

using Volumes =
    hg::Sequential<hg::Conv3d<2, 3, hg::Kernel<3>, hg::Padding<1>>, hg::ReLU, hg::GlobalAvgPool, hg::Linear<3, 2>>;

}  // namespace

TEST_CASE("a map scaled by a vector of its own") { support::check_composition<SqueezeExcitation, 2, 2>(); }
TEST_CASE("a vector beside a map and added to one") { support::check_composition<Context, 2, 2>({2, 24, 24}); }
TEST_CASE("vectors as the output") {
  support::check_composition<Head, 2, 3>();
  support::check_composition<Volumes, 2, 2, false, support::VolumeMesh>();
}
TEST_CASE("vectors of a network in an expression: the gradient of a loss that is one") {
  const auto parameters = support::numbers<double>(hg::Parameters<Head, double>::count, 1);
  const auto input = support::numbers<double>(2 * 2 * 24 * 23, 2);
  hg::Parameters<Head, double> values;
  values.copy_from_host(parameters);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    if (support::leaves_a_piece_empty<Head, support::Field<double, 2>>(mesh, {2, 2, 24, 23})) continue;
    const auto image = hg::distribute_tensor<support::Field<double, 2>>(mesh, {2, 2, 24, 23}, input);
    using Label = support::LikePrediction<Head, support::Field<double, 2>, 3>;
    const auto label = hg::distribute_tensor<Label>(mesh, {2, 3}, support::numbers<double>(6, 3));
    auto by_loss = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
    auto by_expression = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(image) - label)); });
    const auto [loss, gradient] = by_loss(values);
    const auto [value, slope] = by_expression(values);
    CHECK(value == doctest::Approx(loss).epsilon(1e-13));
    CHECK(support::relative_error(hg::redistribute<hg::Replicate>(slope).to_host(),
                                  hg::redistribute<hg::Replicate>(gradient).to_host()) < 1e-12);
  }
}
TEST_CASE("the mean of a field and a matrix, in plain loops") {
  using Model = hg::Sequential<hg::GlobalAvgPool, hg::Linear<3, 2>>;
  const auto w = support::numbers<double>(8, 4), x = support::numbers<double>(2 * 3 * 5 * 7, 5);
  const auto y = support::infer<Model, 3>(support::alone(), {2, 5, 7}, w, x);
  REQUIRE(y.size() == 4);
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 2; ++k) {
      double expected = w[6 + k];
      for (int c = 0; c < 3; ++c)
        for (int i = 0; i < 35; ++i) expected += w[3 * k + c] * x[(3 * n + c) * 35 + i] / 35;
      CHECK(y[2 * n + k] == doctest::Approx(expected).epsilon(1e-13));
    }
}

}  // namespace test_vectors
