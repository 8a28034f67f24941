// program: training
// ranks: 1 2 4 6
// Dropout, Dropout2d, DropPath and random expressions: the numbers that Philox gives by global index, to the bit, on
// every mesh and in every step; gradients by finite differences; nothing in inference.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_dropout {

namespace {

template <int Channels>
using Field = support::Field<double, Channels>;
constexpr hg::index_t batch = 2, rows = 12, columns = 21;
constexpr std::size_t values = 3 * batch * rows * columns;
const std::vector<double> identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
using Pass = hg::Conv2d<3, 3, hg::Bias<false>>;

/// 0, or what passes is multiplied by, at the index-th place.
double factor(double probability, std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint64_t index) {
  const auto words = hg::random_bits({seed, step, layer, true}, index / 4, hg::RandomPurpose::dropout);
  return words[index % 4] * 0x1p-32 < probability ? 0 : 1 / (1 - probability);
}

/// The model drops by units of so many values that follow each other; its dropout is the second layer.
template <class Layer>
void check_steps(std::size_t unit) {
  using Model = hg::Sequential<Pass, Layer>;
  const std::vector<double> input = support::numbers<double>(values, 5);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<Field<3>>(mesh, {batch, 3, rows, columns}, input);
    hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, hg::AdamW{.lr = 0}, mesh, {.seed = 9});
    auto parameters = trainer.parameters();
    parameters.copy_from_host(identity);
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<double> expected = input;
      std::size_t dropped = 0;
      for (std::size_t i = 0; i < values; ++i) {
        const double by = factor(Layer::probability, 9, step, 1, i / unit);
        expected[i] *= by, dropped += by == 0;
      }
      CHECK(hg::full_tensor(trainer.step(hg::mse, x, x).prediction()) == expected);
      if (unit == 1) CHECK(std::abs(static_cast<double>(dropped) / values - Layer::probability) < 0.05);
    }
    CHECK(hg::full_tensor(trainer.predict(x)) == input);
  }
}

/// Two kinds of dropout, whose adjoints run through a concatenation and a residual.
struct Net : hg::Module<Net> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced a = hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>{}(x);
    const hg::Traced b = hg::Dropout<std::ratio<1, 4>>{}(hg::concat(hg::SiLU{}(a), x));
    return hg::Sequential<hg::Conv2d<6, 3>,
                          hg::Residual<hg::Sequential<hg::Conv2d<3, 3>, hg::Tanh, hg::DropPath<std::ratio<1, 2>>>>,
                          hg::Dropout2d<std::ratio<1, 3>>>{}(b);
  }
};

}  // namespace

TEST_CASE("what is dropped is what the random numbers of seed, step and global index say, on every mesh") {
  check_steps<hg::Dropout<std::ratio<3, 10>>>(1);
  check_steps<hg::Dropout2d<std::ratio<1, 2>>>(rows * columns);
  check_steps<hg::DropPath<std::ratio<1, 2>>>(3 * rows * columns);
}

/// As check_steps, of a field of two channels, in one step.
template <class PlacedField, class Pass, class Layer>
void check_points(const hg::DeviceMesh<typename PlacedField::mesh_type>& mesh,
                  const std::array<hg::index_t, PlacedField::rank>& extents, std::size_t unit) {
  using Mesh = typename PlacedField::mesh_type;
  using Model = hg::Sequential<Pass, Layer>;
  std::size_t count = 1;
  for (const hg::index_t extent : extents) count *= static_cast<std::size_t>(extent);
  const std::vector<double> input = support::numbers<double>(count, 5);
  const auto x = hg::distribute_tensor<PlacedField>(mesh, extents, input);
  hg::Trainer<Model, hg::AdamW, Mesh, double> trainer(Model{}, hg::AdamW{.lr = 0}, mesh, {.seed = 4});
  auto parameters = trainer.parameters();
  parameters.copy_from_host({1, 0, 0, 1});
  std::vector<double> expected = input;
  for (std::size_t i = 0; i < count; ++i) expected[i] *= factor(Layer::probability, 4, 0, 1, i / unit);
  CHECK(expected != input);
  CHECK(hg::full_tensor(trainer.step(hg::mse, x, x).prediction()) == expected);
}

TEST_CASE("volumes and signals") {
  using Volume = hg::Mesh<"data", "depth", "height">;
  using VolumeField = hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn, hg::dyn, hg::dyn>, Volume, hg::Shard<0>,
                                  hg::Shard<2>, hg::Shard<3>>;
  using VolumePass = hg::Conv3d<2, 2, hg::Kernel<1>, hg::Bias<false>>;
  const int ranks = support::world().size();
  const auto mesh = hg::device_mesh<Volume>(support::world(), {1, ranks, 1});
  check_points<VolumeField, VolumePass, hg::Dropout<std::ratio<2, 5>>>(mesh, {1, 2, 11, 6, 7}, 1);
  check_points<VolumeField, VolumePass, hg::Dropout3d<std::ratio<2, 5>>>(mesh, {8, 2, 11, 6, 7}, 11 * 6 * 7);
  using Line = hg::Mesh<"data", "width">;
  using Signal = hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn>, Line, hg::Shard<0>, hg::Shard<2>>;
  using SignalPass = hg::Conv1d<2, 2, hg::Kernel<1>, hg::Bias<false>>;
  const auto line = hg::device_mesh<Line>(support::world(), {1, ranks});
  check_points<Signal, SignalPass, hg::Dropout1d<std::ratio<2, 5>>>(line, {8, 2, 23}, 23);
}

TEST_CASE("gradients by finite differences, the same on every mesh; each call of value_and_grad draws anew") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<Field<2>>(mesh, {batch, 2, rows, columns},
                                                   support::numbers<double>(2 * batch * rows * columns, 1));
    const auto y =
        hg::distribute_tensor<Field<3>>(mesh, {batch, 3, rows, columns}, support::numbers<double>(values, 2));
    const auto start = hg::initial_parameters<Net, double>(3);
    auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); }, 17);
    auto same = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(1.0 * x) - y)); }, 17);
    const auto [loss, share] = step(start);
    const std::vector<double> gradient = hg::redistribute<hg::Replicate>(share).to_host();
    CHECK(step(start).first != loss);
    CHECK(std::get<0>(same(start)) == doctest::Approx(loss).epsilon(1e-13));
    static std::vector<double> first;
    if (first.empty()) first = gradient;
    CHECK(support::relative_error(gradient, first) < 1e-12);
    const auto at = [&](std::size_t i, double by) {
      std::vector<double> moved = start.to_host();
      moved[i] += by;
      hg::Parameters<Net, double> parameters;
      parameters.copy_from_host(moved);
      step.set_step(0);
      return step(parameters).first;
    };
    if (mesh.extents() == support::meshes(2).front().extents())
      for (std::size_t i = 0; i < gradient.size(); i += 5)
        CHECK(gradient[i] == doctest::Approx((at(i, 1e-5) - at(i, -1e-5)) / 2e-5).epsilon(1e-6).scale(0.01));
  }
}

TEST_CASE("inference has no launch of it; a trainer that goes on from a state goes on drawing") {
  const auto plain = hg::plan_of<hg::Sequential<Pass, hg::ReLU, Pass>, 3, hg::PlanKind::inference>.launches.size();
  CHECK(hg::plan_of<hg::Sequential<Pass, hg::ReLU, hg::Dropout<>, Pass>, 3, hg::PlanKind::inference>.launches.size() ==
        plain);
  const auto mesh = support::meshes(2).back();
  const auto x = hg::distribute_tensor<Field<2>>(mesh, {batch, 2, rows, columns},
                                                 support::numbers<double>(2 * batch * rows * columns, 1));
  const auto y = hg::distribute_tensor<Field<3>>(mesh, {batch, 3, rows, columns}, support::numbers<double>(values, 2));
  using Trainer = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
  Trainer one(Net{}, hg::AdamW{}, mesh, {.seed = 6}), other(Net{}, hg::AdamW{}, mesh, {.seed = 6});
  for (int i = 0; i < 2; ++i) one.step(hg::mse, x, y);
  const auto copy = [](const auto& from, auto to) { to.copy_from_host(from.to_host()); };
  copy(one.parameters(), other.parameters());
  copy(one.optimizer_state().first_moment(), other.optimizer_state().first_moment());
  copy(one.optimizer_state().second_moment(), other.optimizer_state().second_moment());
  other.optimizer_state().set_steps(2);
  CHECK(one.step(hg::mse, x, y).item() == other.step(hg::mse, x, y).item());
  CHECK(one.parameters().to_host() == other.parameters().to_host());
  // with shards of the parameters the same numbers
  Trainer whole(Net{}, hg::AdamW{}, mesh, {.seed = 6});
  hg::Trainer<Net, hg::AdamW, support::Mesh, double, hg::ShardParameters<"data", "height">> shards(
      Net{}, hg::AdamW{}, mesh, {.seed = 6}, hg::shard_parameters<"data", "height">);
  for (int i = 0; i < 3; ++i)
    CHECK(shards.step(hg::mse, x, y).item() == doctest::Approx(whole.step(hg::mse, x, y).item()).epsilon(1e-12));
}

TEST_CASE("dropout, rand_like and randn_like of one seed, step and stream have nothing to do with each other") {
  const auto mesh = support::alone();
  using Model = hg::Sequential<hg::Dropout<>, Pass>;  // the dropout is the first layer, so its stream is 0
  const auto x = hg::distribute_tensor<Field<3>>(mesh, {batch, 3, rows, columns}, std::vector<double>(values, 1.0));
  hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, hg::AdamW{.lr = 0}, mesh, {.seed = 9});
  auto parameters = trainer.parameters();
  parameters.copy_from_host(identity);
  const auto dropped = hg::full_tensor(trainer.step(hg::mse, x, x).prediction());
  Field<3> uniform = x.clone(), normal = x.clone();
  uniform = hg::rand_like(x, {.seed = 9});
  normal = hg::randn_like(x, {.seed = 9});
  const auto numbers = hg::full_tensor(uniform), bells = hg::full_tensor(normal);
  const auto start = hg::initial_parameters<hg::Conv2d<3, values / 3, hg::Bias<false>>, double>(9).to_host();
  int by_uniform = 0, by_normal = 0, by_start = 0, of_both = 0;  // pairs on the same side of the middle
  for (std::size_t i = 0; i < values / 4; ++i) {                 // words of one call of Philox serve four points
    by_uniform += (dropped[4 * i] == 0) == (numbers[i] < 0.5);
    by_normal += (dropped[4 * i] == 0) == (std::abs(bells[i]) < 0.6745);
    by_start += (numbers[i] < 0.5) == (start[i] < 0);
    of_both += (numbers[i] < 0.5) == (std::abs(bells[i]) < 0.6745);
  }
  const double half = values / 8.0, five_deviations = 5 * std::sqrt(values / 16.0);
  for (const int pairs : {by_uniform, by_normal, by_start, of_both}) CHECK(std::abs(pairs - half) < five_deviations);
}

TEST_CASE("rand_like and randn_like: by global index, seen by neighbours, of the right moments") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<Field<3>>(mesh, {batch, 3, rows, columns}, std::vector<double>(values));
    const hg::Generator generator{.seed = 3, .step = 8, .stream = 2};
    Field<3> uniform = x.clone(), normal = x.clone(), shifted = x.clone();
    uniform = hg::rand_like(x, generator);
    normal = hg::randn_like(x, generator);
    const std::vector<double> got = hg::full_tensor(uniform), bells = hg::full_tensor(normal);
    double mean = 0, square = 0;
    bool equal = true;
    for (std::size_t i = 0; i < values; ++i) {
      const auto bits = hg::random_bits(generator, i, hg::RandomPurpose::uniform);
      equal &= got[i] == hg::unit_of(bits[0], bits[1]);
      mean += bells[i] / values, square += bells[i] * bells[i] / values;
    }
    CHECK(equal);
    CHECK(std::abs(mean) < 0.1);
    CHECK(std::abs(square - 1) < 0.1);
    const auto numbers = hg::rand_like(x, generator);
    shifted = hg::shift<3, 1>(hg::with_boundary<hg::Zero, hg::Zero, hg::Zero, hg::Zero>(numbers));
    const Field<3> moved = hg::shift<3, 1>(uniform);
    const std::vector<double> a = hg::full_tensor(shifted), b = hg::full_tensor(moved);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < values; ++i) differ += a[i] != b[i];
    CHECK(differ == 0);
  }
}

}  // namespace test_dropout
