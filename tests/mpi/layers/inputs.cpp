// program: extending
// ranks: 1 2 4
// Models of several inputs: numbers and indices, at each point and for each sample. On every mesh what one rank
// computes, gradients by finite differences, closed formulas.
#include <numbers>

#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_inputs {

namespace {

template <class T, int Channels>
using Vector = hg::Sharded<hg::Tensor<T, hg::dyn, Channels>, support::Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};

/// A step of a denoiser: conditioned on time, on a class for each sample, and on one for each point.
struct Denoiser : hg::Module<Denoiser> {
  using inputs = std::tuple<hg::FieldInput<2>, hg::VectorInput<1>, hg::VectorInput<1, hg::Indices>,
                            hg::FieldInput<1, hg::Indices>>;
  hg::Named<"soil", hg::Conv2d<5, 3, hg::Kernel<3>, hg::Padding<1>>> first;
  hg::TimeEmbedding<6, 100> time;
  hg::Embedding<5, 6> classes;
  hg::Embedding<7, 3> soils;
  hg::SiLU silu;
  hg::Linear<6, 3> scale;
  hg::Map<Product> times;
  hg::ReLU relu;
  hg::Conv2d<3, 2, hg::Kernel<3>, hg::Padding<1>> last;

  template <class X, class Index>
  constexpr X forward(X x, X t, Index label, Index soil) const {
    const X y = relu(first(hg::concat(x, soils(soil))));
    return last(times(y, hg::expand(silu(scale(time(t) + classes(label))), y)));
  }
};

struct Given {
  std::vector<double> x, t;
  std::vector<std::int64_t> label;
  std::vector<std::int32_t> soil;
  std::vector<double> y;
};
constexpr hg::index_t samples = 3, rows = 11, columns = 10;

Given given() {
  Given all{support::numbers<double>(samples * 2 * rows * columns, 1),
            {0, 3.5, 40},
            {4, 0, 4},
            {},
            support::numbers<double>(samples * 2 * rows * columns, 2)};
  for (int i = 0; i < samples * rows * columns; ++i) all.soil.push_back(i * i % 7);
  return all;
}

auto fields(const hg::DeviceMesh<support::Mesh>& mesh, const Given& all) {
  return hg::Inputs{
      hg::distribute_tensor<support::Field<double, 2>>(mesh, {samples, 2, rows, columns}, all.x),
      hg::distribute_tensor<Vector<double, 1>>(mesh, {samples, 1}, all.t),
      hg::distribute_tensor<Vector<std::int64_t, 1>>(mesh, {samples, 1}, all.label),
      hg::distribute_tensor<support::Field<std::int32_t, 1>>(mesh, {samples, 1, rows, columns}, all.soil)};
}
auto label_field(const hg::DeviceMesh<support::Mesh>& mesh, const Given& all) {
  return hg::distribute_tensor<support::Field<double, 2>>(mesh, {samples, 2, rows, columns}, all.y);
}
hg::Parameters<Denoiser, double> parameters(const std::vector<double>& values) {
  hg::Parameters<Denoiser, double> of;
  of.copy_from_host(values);
  return of;
}
std::vector<double> start() { return support::numbers<double>(hg::Parameters<Denoiser, double>::count, 3); }

/// Loss and whole gradient.
std::pair<double, std::vector<double>> loss_of(const hg::DeviceMesh<support::Mesh>& mesh, const Given& all,
                                               const std::vector<double>& values) {
  const auto x = fields(mesh, all);
  const auto y = label_field(mesh, all);
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
  const auto [loss, gradient] = step(parameters(values));
  return {loss, hg::redistribute<hg::Replicate>(gradient).to_host()};
}

std::vector<double> losses_of_steps(const hg::DeviceMesh<support::Mesh>& mesh, const Given& all) {
  hg::Trainer<Denoiser, hg::AdamW, support::Mesh, double> trainer(Denoiser{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 5});
  const auto x = fields(mesh, all);
  const auto y = label_field(mesh, all);
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(trainer.step(hg::mse, x, y).item());
  const auto captured = trainer.step(hg::mse, x, y).prediction();
  CHECK(support::relative_error(hg::full_tensor(captured), hg::full_tensor(trainer.predict(x))) > 0);
  CHECK(losses[3] < losses[0]);
  const auto last = trainer.step(hg::mse, x, y);
  trainer.predict(x);
  CHECK(last.item() > 0);
  CHECK_THROWS_WITH_AS(last.prediction(), doctest::Contains("a step before predict()"), hg::Error);
  trainer.step(hg::mse, x, y);
  CHECK_THROWS_WITH_AS(last.item(), doctest::Contains("an earlier step"), hg::Error);
  return losses;
}

}  // namespace

TEST_CASE("several inputs: every mesh computes and trains alike") {
  const Given all = given();
  const auto values = start();
  const auto alone = support::alone();
  const auto [loss, gradient] = loss_of(alone, all, values);
  const auto output = hg::full_tensor(hg::infer(parameters(values), fields(alone, all)));
  const auto steps = losses_of_steps(alone, all);
  const auto direction = support::numbers<double>(values.size(), 4);
  const auto along = [&](double step) {
    auto moved = values;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    return loss_of(alone, all, moved).first;
  };
  double slope = 0;
  for (std::size_t i = 0; i < values.size(); ++i) slope += gradient[i] * direction[i];
  CHECK((along(1e-5) - along(-1e-5)) / 2e-5 == doctest::Approx(slope).epsilon(1e-7));
  for (const auto& mesh : support::meshes(samples)) {
    CAPTURE(support::text(mesh));
    const auto [value, slopes] = loss_of(mesh, all, values);
    CHECK(value == doctest::Approx(loss).epsilon(1e-13));
    CHECK(support::relative_error(slopes, gradient) < 1e-12);
    CHECK(hg::full_tensor(hg::infer(parameters(values), fields(mesh, all))) == output);
    CHECK(support::relative_error(losses_of_steps(mesh, all), steps) < 1e-11);
  }
}

TEST_CASE("several inputs in an expression: gradients of those that are variables") {
  const Given all = given();
  const auto values = start();
  const auto run = [&](const hg::DeviceMesh<support::Mesh>& mesh, const Given& at) {
    const auto of = fields(mesh, at);
    const auto& t = std::get<0>(of.more);
    const auto& label = std::get<1>(of.more);
    const auto& soil = std::get<2>(of.more);
    const auto y = label_field(mesh, at);
    auto step = hg::value_and_grad([&](auto net, auto x, auto time) {
      return hg::mean(hg::square(net(x * 2.0, time, label, soil) - y)) + hg::mean(hg::square(time));
    });
    const auto [loss, slope, along_x, along_t] =
        step(parameters(values), static_cast<const support::Field<double, 2>&>(of), t);
    return std::tuple(loss, hg::redistribute<hg::Replicate>(slope).to_host(), hg::full_tensor(along_x),
                      hg::full_tensor(along_t));
  };
  const auto alone = support::alone();
  const auto [loss, slope, along_x, along_t] = run(alone, all);
  const auto check_slope = [&](std::vector<double> Given::*which, const std::vector<double>& gradient, int stream) {
    const auto direction = support::numbers<double>(gradient.size(), stream);
    const auto along = [&](double step) {
      Given moved = all;
      for (std::size_t i = 0; i < gradient.size(); ++i) (moved.*which)[i] += step * direction[i];
      return std::get<0>(run(alone, moved));
    };
    double expected = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) expected += gradient[i] * direction[i];
    CHECK((along(1e-5) - along(-1e-5)) / 2e-5 == doctest::Approx(expected).epsilon(1e-7));
  };
  check_slope(&Given::x, along_x, 7);
  check_slope(&Given::t, along_t, 8);
  for (const auto& mesh : support::meshes(samples)) {
    CAPTURE(support::text(mesh));
    const auto [value, slopes, of_x, of_t] = run(mesh, all);
    CHECK(value == doctest::Approx(loss).epsilon(1e-13));
    CHECK(support::relative_error(slopes, slope) < 1e-12);
    CHECK(support::relative_error(of_x, along_x) < 1e-12);
    CHECK(support::relative_error(of_t, along_t) < 1e-12);
  }
}

namespace {

struct Table : hg::Module<Table> {
  using inputs = std::tuple<hg::FieldInput<1>, hg::VectorInput<1, hg::Indices>>;
  hg::Embedding<3, 2> table;
  template <class X, class Index>
  constexpr X forward(X x, Index i) const {
    return hg::expand(table(i), x);
  }
};
static_assert(std::is_same_v<hg::WhyNot<Table, hg::Inputs<support::Field<float, 2>, Vector<int, 1>>>,
                             hg::why::input_channels_differ<0, 1, 2>>);
static_assert(std::is_same_v<hg::WhyNot<Table, hg::Inputs<support::Field<float, 1>, Vector<int, 2>>>,
                             hg::why::input_channels_differ<1, 1, 2>>);
struct Clock : hg::Module<Clock> {
  using inputs = std::tuple<hg::FieldInput<1>, hg::VectorInput<1, hg::Indices>>;
  hg::TimeEmbedding<4, 10000> time;
  template <class X, class Index>
  constexpr X forward(X, Index i) const {
    return time(i);
  }
};

struct Wide : hg::Module<Wide> {
  using inputs = std::tuple<hg::FieldInput<1>, hg::VectorInput<1, hg::Indices>>;
  hg::Embedding<1000, 64> table;
  constexpr hg::Traced forward(hg::Traced, hg::TracedIndices i) const { return table(i); }
};

}  // namespace

TEST_CASE("Embedding and TimeEmbedding by their formulas; an index without a row is NaN") {
  const auto mesh = support::alone();
  const auto x = hg::distribute_tensor<support::Field<float, 1>>(mesh, {3, 1, 1, 1}, {0, 0, 0});
  const auto i = hg::distribute_tensor<Vector<std::int32_t, 1>>(mesh, {3, 1}, {2, 0, 3});
  hg::Parameters<Table, float> table;
  table.copy_from_host({1, 2, 3, 4, 5, 6});
  const auto rows_of = hg::full_tensor(hg::infer(table, hg::Inputs{x, i}));
  CHECK(std::vector<float>(rows_of.begin(), rows_of.begin() + 4) == std::vector<float>{5, 6, 1, 2});
  const std::string plan = hg::explain(Table{}, hg::Inputs{x, i});
  CHECK(plan ==
        hg::explain<hg::Inputs<support::Field<float, 1>, Vector<std::int32_t, 1>>>(Table{}, mesh, {3, 1, 1, 1}));
  CHECK(plan.find("embedding weight gradient") != std::string::npos);
  CHECK(std::isnan(rows_of[4]));
  CHECK(std::isnan(rows_of[5]));
  const auto times = hg::full_tensor(hg::infer(hg::Parameters<Clock, float>{}, hg::Inputs{x, i}));
  for (int n = 0; n < 3; ++n) {
    const double t[] = {2, 0, 3};
    for (int c = 0; c < 2; ++c) {
      const double angle = t[n] * (c == 0 ? 1 : 0.01);
      CHECK(times[static_cast<std::size_t>(4 * n + c)] == doctest::Approx(std::cos(angle)));
      CHECK(times[static_cast<std::size_t>(4 * n + 2 + c)] == doctest::Approx(std::sin(angle)));
    }
  }
}

TEST_CASE("an Embedding starts normal") {
  const auto values = hg::initial_parameters<Wide, double>(3).to_host();
  double sums[4] = {};
  for (const double v : values) sums[0] += v, sums[1] += v * v, sums[2] += v * v * v, sums[3] += v * v * v * v;
  for (double& sum : sums) sum /= 64000;
  CHECK(std::abs(sums[0]) < 0.02);
  CHECK(std::abs(sums[1] - 1) < 0.03);
  CHECK(std::abs(sums[2]) < 0.06);
  CHECK(std::abs(sums[3] - 3) < 0.15);
}

TEST_CASE("an input that lies otherwise than the first is refused") {
  const auto mesh = support::alone();
  const auto x = hg::distribute_tensor<support::Field<float, 1>>(mesh, {2, 1, 1, 1}, {0, 0});
  const auto i = hg::distribute_tensor<Vector<std::int32_t, 1>>(mesh, {3, 1}, {0, 0, 0});
  CHECK_THROWS_WITH_AS(hg::infer(hg::Parameters<Table, float>{}, hg::Inputs{x, i}),
                       "input 1 has 3 points in dimension 0, the first input has 2: give it the extents of the first "
                       "input",
                       hg::CollectiveError);
}

}  // namespace test_inputs
