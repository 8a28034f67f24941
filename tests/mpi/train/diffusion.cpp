// program: weights
// ranks: 1 2 4 6
// DiffusionUNet against PyTorch's stored tensors, EDM by its formulas, Heun's sampler where the answer is known, and
// ensemble scores by plain sums: on every mesh.
#include <halogen/io/checkpoint.hpp>

#include "support/composition.hpp"
#include "support/reference.hpp"

namespace test_diffusion {

namespace {

template <int Channels>
using Field = support::Field<double, Channels>;
using Levels = hg::Sharded<hg::Tensor<double, hg::dyn, 1>, support::Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
using Net = hg::DiffusionUNet<2, 2, 8, hg::Boundary<hg::Zero, hg::Zero>, 3, 4, 2>;
using Image = hg::Inputs<Field<2>, Field<3>, Levels>;
constexpr hg::index_t samples = 2, rows = 19, columns = 23;

/// The formula of make_model_references.py.
std::vector<double> values(std::size_t count) {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 2654435761u + 12345u) % (std::uint64_t{1} << 32)) / 0x1p31 - 1);
  return values;
}
std::vector<double> each37th(const std::vector<double>& all) {
  std::vector<double> some;
  for (std::size_t i = 0; i < all.size(); i += 37) some.push_back(all[i]);
  return some;
}

/// The normal number of a purpose at an index (Box and Muller).
double normal_at(const hg::Generator& generator, std::uint64_t index, hg::RandomPurpose purpose) {
  const auto bits = hg::random_bits(generator, index, purpose);
  return std::sqrt(-2 * std::log(1 - hg::unit_of(bits[0], bits[1]))) *
         std::cos(2 * std::numbers::pi * hg::unit_of(bits[2], bits[3]));
}

}  // namespace

TEST_CASE("DiffusionUNet: PyTorch's output and gradients") {
  const support::Reference expected("diffusion_unet_run");
  hg::Parameters<Net, double> parameters;
  CHECK(hg::load_parameters(support::Reference::folder() + "/diffusion_unet.safetensors", parameters, support::world())
            .empty());
  const auto names = hg::parameter_names<Net>();
  for (const auto& mesh : support::meshes(samples)) {
    CAPTURE(support::text(mesh));
    if (support::leaves_a_piece_empty<Net, Image>(mesh, {samples, 2, rows, columns})) continue;
    const auto points = static_cast<std::size_t>(samples * rows * columns);
    const auto x = hg::distribute_tensor<Field<2>>(mesh, {samples, 2, rows, columns}, values(2 * points));
    const auto conditions = hg::distribute_tensor<Field<3>>(mesh, {samples, 3, rows, columns}, values(3 * points));
    const auto level = hg::distribute_tensor<Levels>(mesh, {samples, 1}, {-1.25, 0.75});
    auto step = hg::value_and_grad([&](auto net, auto image) { return hg::sum(net(image, conditions, level) * x); });
    const auto [sum, gradient, along_x] = step(parameters, x);
    const auto output = hg::full_tensor(hg::infer(parameters, hg::Inputs{x, conditions, level}));
    CHECK(support::relative_error(each37th(output), expected.values("output")) < 1e-12);
    const std::vector<double> all = hg::redistribute<hg::Replicate>(gradient).to_host();
    for (std::size_t i = 0; i < names.size(); ++i) {
      CAPTURE(names[i]);
      const hg::ParameterShape& shape = hg::Parameters<Net, double>::graph().parameters[static_cast<int>(i)];
      const std::vector<double> part(all.begin() + shape.offset, all.begin() + shape.offset + shape.count);
      CHECK(support::relative_error(part, expected.values("gradient." + names[i])) < 1e-6);  // stored as float
    }
    CHECK(support::relative_error(each37th(hg::full_tensor(along_x)), expected.values("grad_input")) < 1e-12);
  }
}

TEST_CASE("noised: the paper's formulas by seed, step and global index, alike on every mesh") {
  const hg::EDM edm{.sigma_data = 0.7};
  const std::vector<double> clean = support::numbers<double>(static_cast<std::size_t>(3 * 2 * 6 * 7), 3);
  const hg::Generator generator{.seed = 5, .step = 9, .stream = 2};
  for (const auto& mesh : support::meshes(3)) {
    CAPTURE(support::text(mesh));
    const auto field = hg::distribute_tensor<Field<2>>(mesh, {3, 2, 6, 7}, clean);
    const auto batch = hg::noised(edm, field, generator);
    const auto image = hg::full_tensor(batch.image), level = hg::full_tensor(batch.level),
               target = hg::full_tensor(batch.target);
    for (std::size_t n = 0; n < 3; ++n) {
      const double sigma = std::exp(-1.2 + 1.2 * normal_at(generator, n, hg::RandomPurpose::levels)),
                   variance = sigma * sigma + 0.49;
      CHECK(level[n] == doctest::Approx(std::log(sigma) / 4).epsilon(1e-13));
      for (std::size_t i = 84 * n; i < 84 * (n + 1); ++i) {
        const double noisy = clean[i] + sigma * normal_at(generator, i, hg::RandomPurpose::noise);
        CHECK(image[i] == doctest::Approx(noisy / std::sqrt(variance)).epsilon(1e-13));
        CHECK(
            target[i] ==
            doctest::Approx((clean[i] - 0.49 / variance * noisy) / (sigma * 0.7 / std::sqrt(variance))).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("sample_heun: normal data, of which the flow is known, with an error of second order, alike on every mesh") {
  // The best network for normal data answers 0: denoised = skip x, and x shrinks by sqrt(variance(sigma)).
  const hg::EDM edm{.sigma_data = 0.5};
  CHECK(edm.sigma_at(0, 1) == doctest::Approx(80));
  CHECK(edm.sigma_at(0, 16) == doctest::Approx(80));
  CHECK(edm.sigma_at(15, 16) == doctest::Approx(0.002));
  CHECK(edm.sigma_at(16, 16) == 0);
  std::vector<double> first;
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<1> like(mesh, {2, 1, 5, 6});
    int asked = 0;
    const auto drawn = [&](int steps) {
      return hg::full_tensor(hg::sample_heun(edm, like, {.seed = 4}, steps, [&](const auto& x, const Levels& level) {
        ++asked;
        CHECK(level.extent(0) == 2);
        return Field<1>(0.0 * x);
      }));
    };
    const double shrinks = 80 * std::sqrt(edm.variance(0) / edm.variance(80));
    const auto error = [&](const std::vector<double>& sample) {
      double largest = 0;
      for (std::size_t i = 0; i < sample.size(); ++i)
        largest =
            std::max(largest, std::abs(sample[i] - shrinks * normal_at({.seed = 4}, i, hg::RandomPurpose::start)));
      return largest;
    };
    const auto coarse = drawn(16), fine = drawn(64);
    CHECK(asked == 2 * 16 - 1 + 2 * 64 - 1);
    CHECK(error(coarse) < 0.2);
    CHECK(error(fine) < error(coarse) / 12);
    if (first.empty()) first = fine;
    CHECK(fine == first);
    CHECK_THROWS_WITH_AS(drawn(0), doctest::Contains("0 steps: give 1 or more"), hg::CollectiveError);
  }
}

TEST_CASE("score_ensemble: plain sums over members, pairs and points, members cut or not") {
  for (const std::size_t count : {2, 5, 6}) {
    const std::size_t points = 4 * 7;
    const auto x = support::numbers<double>(count * points, 1), y = support::numbers<double>(points, 2);
    auto w = support::numbers<double>(points, 3);
    for (double& weight : w) weight = weight * weight;
    double weights = 0, crps = 0, squares = 0, variance = 0;
    for (std::size_t p = 0; p < points; ++p) {
      double absolute = 0, pairs = 0, mean = 0, spread = 0;
      for (std::size_t m = 0; m < count; ++m) mean += x[m * points + p] / double(count);
      for (std::size_t m = 0; m < count; ++m) {
        absolute += std::abs(x[m * points + p] - y[p]) / double(count);
        spread += (x[m * points + p] - mean) * (x[m * points + p] - mean) / double(count - 1);
        for (std::size_t n = 0; n < m; ++n)
          pairs += std::abs(x[m * points + p] - x[n * points + p]) / double(count * (count - 1));
      }
      weights += w[p];
      crps += w[p] * (absolute - pairs);
      squares += w[p] * (mean - y[p]) * (mean - y[p]);
      variance += w[p] * spread;
    }
    using Truth = hg::Sharded<hg::Tensor<double, 1, 1, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate, hg::Shard<2>,
                              hg::Shard<3>>;
    for (const auto& mesh : support::meshes(static_cast<int>(count))) {
      CAPTURE(support::text(mesh));
      const auto members = hg::distribute_tensor<Field<1>>(mesh, {hg::index_t(count), 1, 4, 7}, x);
      const auto truth = hg::distribute_tensor<Truth>(mesh, {1, 1, 4, 7}, y),
                 weight = hg::distribute_tensor<Truth>(mesh, {1, 1, 4, 7}, w);
      const auto scores = hg::score_ensemble(members, hg::expand<0>(truth), hg::expand<0>(weight));
      CHECK(scores.crps == doctest::Approx(crps / weights).epsilon(1e-12));
      CHECK(scores.rmse == doctest::Approx(std::sqrt(squares / weights)).epsilon(1e-12));
      CHECK(scores.spread ==
            doctest::Approx(std::sqrt(variance / weights * double(count + 1) / double(count))).epsilon(1e-12));
      CHECK(scores.spread_skill() == doctest::Approx(scores.spread / scores.rmse));
      // points of weight 0 do not count, even where truth or members are NaN
      auto spoilt = x, unknown = y, lighter = w;
      for (std::size_t p = 0; p < points; p += 5) {
        lighter[p] = 0;
        spoilt[p] = unknown[p] = std::numeric_limits<double>::quiet_NaN();
      }
      const auto score = [&](const std::vector<double>& of_members, const std::vector<double>& of_truth) {
        return hg::score_ensemble(hg::distribute_tensor<Field<1>>(mesh, {hg::index_t(count), 1, 4, 7}, of_members),
                                  hg::expand<0>(hg::distribute_tensor<Truth>(mesh, {1, 1, 4, 7}, of_truth)),
                                  hg::expand<0>(hg::distribute_tensor<Truth>(mesh, {1, 1, 4, 7}, lighter)));
      };
      const auto known = score(x, y), seen = score(spoilt, unknown);
      CHECK(std::isfinite(seen.crps));
      CHECK(seen.crps == known.crps);
      CHECK(seen.rmse == known.rmse);
      CHECK(seen.spread == known.spread);
    }
  }
}

}  // namespace test_diffusion
