// program: extending
// ranks: 1 2 4
// BatchNorm: its definition in plain loops, every mesh, finite differences, far from 0, buffers and inference by them.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/refusal.hpp"

namespace test_batch_norm {

namespace {

using Net = hg::Sequential<hg::Conv2d<2, 4>, hg::BatchNorm2d<4>, hg::ReLU,
                           hg::Conv2d<4, 3, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm<3>, hg::Conv2d<3, 2>>;
using Volumes = hg::Sequential<hg::BatchNorm3d<2>, hg::Conv3d<2, 2, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm3d<2>>;
/// ResNet's block: two norms of sums, one value under two norms.
struct Block {
  hg::Conv2d<2, 3, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>> first;
  hg::BatchNorm<3> a, b, c;
  hg::ReLU relu;
  hg::Conv2d<3, 3, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>> second;
  hg::Conv2d<3, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X y = first(x);
    return last(relu(b(second(relu(a(y)))) + c(y)));
  }
};

/// Norms without parameters, and with.
using Plain = hg::Sequential<hg::Conv2d<2, 4>, hg::GroupNorm<2, 4, hg::Affine<false>>, hg::Tanh,
                             hg::Conv2d<4, 3, hg::Kernel<3>, hg::Padding<1>>, hg::InstanceNorm2d<3>, hg::Conv2d<3, 2>,
                             hg::InstanceNorm<2, hg::Affine<true>>>;

/// What torch.nn.BatchNorm2d does to x, (N, C, P): in training, and to its buffers.
/// The same without, and the same norm called twice.
struct Bare : hg::Module<Bare> {
  using Norm = hg::BatchNorm2d<3, std::ratio<1, 1000>, std::ratio<1, 4>, hg::Affine<false>>;
  hg::Named<"norm", Norm> norm;
  hg::Conv2d<2, 3> first;
  hg::Conv2d<3, 3, hg::Kernel<3>, hg::Padding<1>> second;
  hg::Conv2d<3, 2> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced y = hg::SiLU{}(norm(first(x)));
    return last(hg::Tanh{}(norm(second(y))));
  }
};

struct Expected {
  std::vector<double> y, mean, variance;
};
Expected batch_norm(const std::vector<double>& x, int samples, int channels, int points, const double* gamma,
                    const double* beta) {
  Expected expected{x, {}, {}};
  const double count = static_cast<double>(samples) * points;
  for (int c = 0; c < channels; ++c) {
    double mean = 0, squares = 0;
    const auto each = [&](auto f) {
      for (int n = 0; n < samples; ++n)
        for (int p = 0; p < points; ++p) f(static_cast<std::size_t>((n * channels + c) * points + p));
    };
    each([&](std::size_t i) { mean += x[i] / count; });
    each([&](std::size_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    each(
        [&](std::size_t i) { expected.y[i] = gamma[c] * (x[i] - mean) / std::sqrt(squares / count + 1e-5) + beta[c]; });
    expected.mean.push_back(0.1 * mean);
    expected.variance.push_back(0.9 + 0.1 * squares / (count - 1));
  }
  return expected;
}

}  // namespace

TEST_CASE("every mesh, finite differences") {
  support::check_composition<Net, 2, 2>();
  support::check_composition<Block, 2, 2>();
  support::check_composition<Volumes, 2, 2, false, support::VolumeMesh>();
}

TEST_CASE("the definition, buffers and what inference makes of them, on every mesh") {
  using Model = hg::Sequential<hg::BatchNorm<3>>;
  const std::vector<double> start{1.5, -0.5, 2, 0.1, 0.2, 0.3, 0, 0, 0, 1, 1, 1};
  const auto x = support::numbers<double>(2 * 3 * 12 * 11, 6);
  const Expected expected = batch_norm(x, 2, 3, 132, start.data(), start.data() + 3);
  CHECK(hg::parameter_names<Model>() ==
        std::vector<std::string>{"0.weight", "0.bias", "0.running_mean", "0.running_var"});
  CHECK(hg::Parameters<Model, double>::trained == 6);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto image = hg::distribute_tensor<support::Field<double, 3>>(mesh, {2, 3, 12, 11}, x);
    hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, {.lr = 0.5, .weight_decay = 0.1}, mesh);
    hg::Parameters<Model, double>(trainer.parameters()).copy_from_host(start);
    auto step = trainer.step(hg::mse, image, image);
    CHECK(support::relative_error(hg::full_tensor(step.prediction()), expected.y) < 1e-13);
    const auto after = trainer.parameters().to_host();
    for (int c = 0; c < 3; ++c) {
      CHECK(after[c] != start[c]);
      CHECK(after[6 + c] == doctest::Approx(expected.mean[c]).epsilon(1e-12));
      CHECK(after[9 + c] == doctest::Approx(expected.variance[c]).epsilon(1e-12));
    }
    const auto inferred = hg::full_tensor(trainer.predict(image));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / 132 % 3;
      const double y = after[c] * (x[i] - after[6 + c]) / std::sqrt(after[9 + c] + 1e-5) + after[3 + c];
      worst = std::max(worst, std::abs(inferred[i] - y));
    }
    CHECK(worst < 1e-13);
  }
}

TEST_CASE("without gamma and beta: every mesh, the definition, buffers that follow two calls a step") {
  support::check_composition<Bare, 2, 2>();
  using Norm = hg::BatchNorm<3, std::ratio<1, 100000>, std::ratio<1, 10>, hg::Affine<false>>;
  using Model = hg::Sequential<hg::Conv2d<3, 3, hg::Bias<false>>, Norm>;
  CHECK(hg::parameter_names<Model>() == std::vector<std::string>{"0.weight", "1.running_mean", "1.running_var"});
  const std::vector<double> start{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1};  // the convolution changes nothing
  const double gamma[] = {1, 1, 1}, beta[] = {0, 0, 0};
  const auto x = support::numbers<double>(2 * 3 * 12 * 11, 6);
  const Expected expected = batch_norm(x, 2, 3, 132, gamma, beta);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto image = hg::distribute_tensor<support::Field<double, 3>>(mesh, {2, 3, 12, 11}, x);
    hg::Trainer<Model, hg::SGD, support::Mesh, double> trainer(Model{}, {.lr = 0}, mesh);
    hg::Parameters<Model, double>(trainer.parameters()).copy_from_host(start);
    auto step = trainer.step(hg::mse, image, image);
    CHECK(support::relative_error(hg::full_tensor(step.prediction()), expected.y) < 1e-13);
    const auto after = trainer.parameters().to_host();
    const auto inferred = hg::full_tensor(trainer.predict(image));
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(after[9 + c] == doctest::Approx(expected.mean[c]).epsilon(1e-12));
      CHECK(after[12 + c] == doctest::Approx(expected.variance[c]).epsilon(1e-12));
      const std::size_t i = c * 132 + 17;
      CHECK(inferred[i] == doctest::Approx((x[i] - after[9 + c]) / std::sqrt(after[12 + c] + 1e-5)).epsilon(1e-12));
    }
  }
}

TEST_CASE("norms without parameters: every mesh, finite differences, an instance at a time") {
  support::check_composition<Plain, 2, 2>();
  CHECK(hg::parameter_names<Plain>() == std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias", "5.weight",
                                                                 "5.bias", "6.weight", "6.bias"});
  const auto x = support::numbers<double>(3 * 132, 6);  // one sample: its instances are the batch's
  const double gamma[] = {1, 1, 1}, beta[] = {0, 0, 0};
  const auto y =
      support::infer<hg::Sequential<hg::InstanceNorm2d<3>>, 3>(support::alone(), {1, 12, 11}, std::vector<double>{}, x);
  CHECK(support::relative_error(y, batch_norm(x, 1, 3, 132, gamma, beta).y) < 1e-13);
}

TEST_CASE("norms of one value are refused on all ranks alike, and leave statistics and parameters as they are") {
  const auto field = [](const auto& mesh, hg::index_t samples, hg::index_t columns) {
    return hg::distribute_tensor<support::Field<double, 2>>(
        mesh, {samples, 2, 1, columns}, support::numbers<double>(static_cast<std::size_t>(2 * samples * columns), 1));
  };
  const auto mesh = support::alone();
  const auto one = field(mesh, 1, 1), two = field(mesh, 1, 2), pair = field(mesh, 2, 1);
  const int ranks = support::world().size();  // each rank has a sample of one point
  const auto many = field(hg::device_mesh<support::Mesh>(support::world(), {ranks, 1, 1}), ranks, 1);
  const auto refused = [&](auto model, const auto& x, bool infers = false) {
    using Model = decltype(model);
    hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, {}, x.mesh());
    const auto before = trainer.parameters().to_host();
    const std::string words = support::refusal([&] {
      if (infers)
        trainer.predict(x);
      else
        trainer.step(hg::mse, x, x);
    });
    if (!words.empty()) CHECK(trainer.parameters().to_host() == before);
    return words;
  };
  using Batch = hg::Sequential<hg::BatchNorm<2>>;
  using Instance = hg::Sequential<hg::InstanceNorm<2>>;
  CHECK(refused(Batch{}, one) ==
        "layer 0 (batch_norm): each variance would be that of one value, of 1 sample with 1 point: give it more "
        "points, or more samples");
  CHECK(refused(Batch{}, two).empty());
  CHECK(refused(Batch{}, pair).empty());
  CHECK(refused(Batch{}, one, true).empty());  // by the running statistics
  for (const bool infers : {false, true})
    for (const auto* x : {&one, &pair, &many})
      CHECK(refused(Instance{}, *x, infers) ==
            "layer 0 (group_norm): each variance would be that of one value, of 1 channel with 1 point: give it more "
            "points, or more channels in a group");
  CHECK(refused(Instance{}, two).empty());
  CHECK(!refused(hg::Sequential<hg::GroupNorm<2, 2>>{}, one).empty());
  CHECK(refused(hg::Sequential<hg::GroupNorm<1, 2>>{}, one).empty());
}

TEST_CASE("float, 2^20 + k / 8: outputs lose no digits") {
  // mean and deviation are those of k / 8, which a float holds beside 2^20
  const auto check = [](auto model, std::vector<float> parameters, double offset) {
    using Model = decltype(model);
    std::vector<double> small(2 * 24 * 23);
    for (std::size_t i = 0; i < small.size(); ++i) small[i] = static_cast<double>(i * 7 % 9) / 8;
    std::vector<float> x;
    for (const double v : small) x.push_back(static_cast<float>(v + offset));
    const double gamma[] = {1, 1}, beta[] = {0.5, 0.5};
    const auto expected = batch_norm(small, 1, 2, 24 * 23, gamma, beta).y;
    const auto result = support::train_once<Model, 2, 2, support::InnerProduct>(
        support::alone(), {1, 24, 23}, parameters, x, {24, 23}, std::vector<float>(x.size(), 1.f));
    CHECK(support::relative_error(result.output, expected) < 1e-6);
    // behind a convolution that changes nothing, with an activation, as other launches read it
    using Behind = hg::Sequential<Model, hg::Tanh, hg::Conv2d<2, 2>>;
    parameters.insert(parameters.begin() + 4, {1, 0, 0, 1, 0, 0});
    const auto through = support::infer<Behind, 2>(support::alone(), {1, 24, 23}, parameters, x);
    std::vector<double> bent;
    for (const double v : expected) bent.push_back(std::tanh(v));
    CHECK(support::relative_error(through, bent) < 1e-6);
  };
  check(hg::Sequential<hg::InstanceNorm<2, hg::Affine<true>>>{}, {1, 1, 0.5f, 0.5f}, 0x1p20);
  check(hg::Sequential<hg::InstanceNorm<2, hg::Affine<true>>>{}, {1, 1, 0.5f, 0.5f}, -0x1p20);
  // BatchNorm in inference, by a running mean of 2^20
  const std::vector<float> x{0x1p20f + 0.125f, 0x1p20f + 1, 0x1p20f, 0x1p20f};
  const auto y = support::infer<hg::Sequential<hg::BatchNorm<2>>, 2>(
      support::alone(), {1, 1, 2}, std::vector<float>{1, 1, 0, 0, 0x1p20f, 0x1p20f, 3, 3}, x);
  const double scale = 1 / std::sqrt(3 + 1e-5);
  CHECK(support::relative_error(y, std::vector<double>{0.125 * scale, scale, 0, 0}) < 1e-6);
}

TEST_CASE("float, mean 1e4 and deviation 1") {
  using Model = hg::Sequential<hg::BatchNorm<2>>;
  auto x = support::numbers<double>(2 * 2 * 24 * 23, 7);
  for (double& v : x) v = static_cast<double>(static_cast<float>(1e4 + v * std::sqrt(3.0)));
  const double gamma[] = {1, 1}, beta[] = {0, 0};
  const Expected expected = batch_norm(x, 2, 2, 24 * 23, gamma, beta);
  const auto result = support::train_once<Model, 2, 2, support::InnerProduct>(
      support::alone(), {2, 24, 23}, std::vector<float>{1, 1, 0, 0, 0, 0, 1, 1}, std::vector<float>(x.begin(), x.end()),
      {24, 23}, std::vector<float>(x.size(), 1.f));
  CHECK(support::relative_error(result.output, expected.y) < 1e-6);
}

}  // namespace test_batch_norm
