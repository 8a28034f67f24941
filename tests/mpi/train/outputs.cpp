// program: training
// ranks: 1 2 4
// Models of several outputs: a loss for each of them, their gradients by finite differences; an output that layers read
// too, one that is a vector, one that is a norm's. In expressions, and on every mesh what one rank computes.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_outputs {

namespace {

template <int Channels>
using Field = support::Field<double, Channels>;
template <class T, int Channels>
using Vector = hg::Sharded<hg::Tensor<T, hg::dyn, Channels>, support::Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
using Classes = support::WithValues<Field<1>, std::int64_t>::type;

/// A trunk that is an output as its norm gives it, a map that layers read and the user too, classes at half the
/// resolution's points, and a vector.
struct Heads : hg::Module<Heads> {
  constexpr auto forward(hg::Traced x) const {
    const hg::Traced trunk = hg::GroupNorm<2, 4>{}(hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>{}(x));
    const hg::Traced height = hg::Conv2d<4, 2, hg::Kernel<3>, hg::Padding<1>>{}(hg::SiLU{}(trunk));
    const hg::Traced kind = hg::Conv2d<2, 3, hg::Kernel<2>, hg::Stride<2>>{}(height);
    return std::tuple{height, kind, hg::Linear<2, 3>{}(hg::GlobalAvgPool{}(hg::Tanh{}(height))), trunk};
  }
};

struct Data {
  Field<2> x, height;
  Classes kind;
  Vector<double, 3> vector;
  Field<4> trunk;
  Field<1> weight;
};

constexpr hg::index_t rows = 16, columns = 24;

Data data_on(const hg::DeviceMesh<support::Mesh>& mesh) {
  const auto numbers = [](std::size_t count, std::uint64_t stream) { return support::numbers<double>(count, stream); };
  std::vector<std::int64_t> kinds(2 * rows / 2 * columns / 2);
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<std::int64_t>(i * i % 4) - 1;
  for (std::int64_t& kind : kinds)
    if (kind < 0) kind = -100;
  std::vector<double> weights = numbers(2 * rows * columns, 7);
  for (double& w : weights) w = w * w;
  return {hg::distribute_tensor<Field<2>>(mesh, {2, 2, rows, columns}, numbers(4 * rows * columns, 1)),
          hg::distribute_tensor<Field<2>>(mesh, {2, 2, rows, columns}, numbers(4 * rows * columns, 2)),
          hg::distribute_tensor<Classes>(mesh, {2, 1, rows / 2, columns / 2}, kinds),
          hg::distribute_tensor<Vector<double, 3>>(mesh, {2, 3}, numbers(6, 3)),
          hg::distribute_tensor<Field<4>>(mesh, {2, 4, rows, columns}, numbers(8 * rows * columns, 4)),
          hg::distribute_tensor<Field<1>>(mesh, {2, 1, rows, columns}, weights)};
}

using Parameters = hg::Parameters<Heads, double>;

const auto losses = [] { return hg::Losses{hg::huber, 0.3 * hg::cross_entropy, hg::mse, 0.1 * (2 * hg::l1)}; };

/// Of all outputs, the first with a weight field.
auto loss_of(const Data& data) {
  return [&data](auto net) {
    return losses()(net(data.x), hg::Labels{data.height, data.kind, data.vector, data.trunk},
                    hg::Weights{data.weight, hg::no_weight, hg::no_weight, hg::no_weight});
  };
}

/// `value(parameters)` differentiated by some parameters, beside `gradient`.
template <class Value>
void check_differences(const Parameters& at, const std::vector<double>& gradient, Value value) {
  const std::vector<double> start = at.to_host();
  for (std::size_t i = 0; i < start.size(); i += 7) {
    const auto moved = [&](double by) {
      std::vector<double> values = start;
      values[i] += by;
      Parameters parameters;
      parameters.copy_from_host(values);
      return value(parameters);
    };
    CAPTURE(i);
    CHECK(gradient[i] == doctest::Approx((moved(1e-5) - moved(-1e-5)) / 2e-5).epsilon(1e-5).scale(0.1));
  }
}

}  // namespace

TEST_CASE("a loss for each output: the sum, by the array language; gradients by finite differences") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh);
    const Parameters parameters = hg::initial_parameters<Heads, double>(3);
    auto step = hg::value_and_grad(loss_of(data));
    const auto [loss, share] = step(parameters);
    const auto gradient = hg::redistribute<hg::Replicate>(share).to_host();

    const auto [height, kind, vector, trunk] = hg::infer(parameters, data.x);
    static_assert(std::is_same_v<std::remove_const_t<decltype(vector)>, Vector<double, 3>>);
    const std::vector<double> scores = hg::full_tensor(kind);
    const std::vector<std::int64_t> kinds = hg::full_tensor(data.kind);
    double entropy = 0, counted = 0;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t p = 0; p < rows * columns / 4; ++p) {
        const std::int64_t label = kinds[n * rows * columns / 4 + p];
        if (label < 0) continue;
        double sum = 0;
        const auto score = [&](std::size_t c) { return scores[(3 * n + c) * rows * columns / 4 + p]; };
        for (std::size_t c = 0; c < 3; ++c) sum += std::exp(score(c));
        entropy += std::log(sum) - score(static_cast<std::size_t>(label)), ++counted;
      }
    const auto error = hg::abs(height - data.height);
    const double weights = hg::sum(data.weight).item();
    const double expected =
        hg::sum(data.weight * hg::where(error < 1.0, 0.5 * error * error, error - 0.5)).item() / (2 * weights) +
        0.3 * entropy / counted + hg::mean(hg::square(vector - data.vector)).item() +
        0.2 * hg::mean(hg::abs(trunk - data.trunk)).item();
    CHECK(loss == doctest::Approx(expected).epsilon(1e-12));
    if (mesh.extents() == support::meshes(2).front().extents())
      check_differences(parameters, gradient, [&](const Parameters& moved) { return step(moved).first; });
    static std::vector<double> first;
    if (first.empty()) first = gradient;
    CHECK(support::relative_error(gradient, first) < 1e-12);
  }
}

TEST_CASE("an expression of several outputs: gradients of parameters and of what it is applied to") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh);
    const Parameters parameters = hg::initial_parameters<Heads, double>(4);
    auto function = hg::value_and_grad([&](auto net, auto x) {
      const auto [height, kind, vector, trunk] = net(0.5 * x + data.height);  // kind is not read
      return hg::mean(hg::square(height - data.height) * data.weight) + hg::mean(vector * data.vector) +
             0.3 * hg::mean(height * x) + hg::mean(trunk * trunk * trunk);
    });
    const auto [value, share, by_x] = function(parameters, data.x);
    const auto gradient = hg::redistribute<hg::Replicate>(share).to_host();
    static std::vector<double> first;
    if (first.empty()) first = gradient;
    CHECK(support::relative_error(gradient, first) < 1e-12);
    if (!(mesh.extents() == support::meshes(2).front().extents())) continue;
    check_differences(parameters, gradient,
                      [&](const Parameters& moved) { return std::get<0>(function(moved, data.x)); });
    const auto direction =
        hg::distribute_tensor<Field<2>>(mesh, {2, 2, rows, columns}, support::numbers<double>(4 * rows * columns, 9));
    const auto along = [&](double by) {
      const Field<2> moved = data.x + by * direction;
      return std::get<0>(function(parameters, moved));
    };
    CHECK(hg::sum(by_x * direction).item() == doctest::Approx((along(1e-5) - along(-1e-5)) / 2e-5).epsilon(1e-7));
  }
}

TEST_CASE("a trainer of several outputs: steps, predictions, weights that sum to nothing") {
  const auto mesh = support::meshes(2).back();
  const Data data = data_on(mesh);
  hg::Trainer<Heads, hg::AdamW, support::Mesh, double> trainer(Heads{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
  const hg::Labels labels{data.height, data.kind, data.vector, data.trunk};
  const hg::Weights weights{data.weight, hg::no_weight, hg::no_weight, hg::no_weight};
  auto captured = trainer.capture(losses(), data.x, labels, weights);
  const double first = trainer.step(losses(), data.x, labels, weights).item();
  CHECK(first == doctest::Approx(hg::value_and_grad(loss_of(data))(hg::initial_parameters<Heads, double>(3)).first)
                     .epsilon(1e-13));
  const auto step = captured();
  const auto [height, kind, vector, trunk] = step.prediction();
  CHECK(step.item() < first);
  CHECK(height.extent(1) == 2);
  CHECK(kind.extent(2) == rows / 2);
  const std::vector<double> before = trainer.parameters().to_host();
  const Field<1> nothing = 0.0 * data.weight;
  CHECK_THROWS_AS(
      trainer.step(losses(), data.x, labels, hg::Weights{nothing, hg::no_weight, hg::no_weight, hg::no_weight}).item(),
      hg::CollectiveError);
  CHECK(trainer.parameters().to_host() == before);
  CHECK(hg::explain(Heads{}, data.x).find("loss") != std::string::npos);
}

}  // namespace test_outputs
