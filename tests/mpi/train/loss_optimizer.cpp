// program: networks
// reads: convolutions
// Losses with each reduction, steps by them and AdamW against PyTorch's stored tensors; what a loss refuses, alike on
// all ranks.
#include <doctest/doctest.h>

#include <cmath>
#include <halogen/train/evaluate_loss.hpp>
#include <limits>

#include "halogen/layers/global_avg_pool.hpp"
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/reference.hpp"
#include "support/train_once.hpp"

namespace test_loss_optimizer {

namespace {

using support::relative_error;
using Identity = hg::Conv2d<3, 3>;  // with these weights
const std::vector<double> identity{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
template <int Channels>
using Field = support::Field<double, Channels>;

/// file.safetensors has what PyTorch computes, prefix.loss and so on.
template <class Loss>
void check_loss(const std::string& file, const std::string& prefix, bool weighted) {
  const support::Reference reference(file);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    try {
      const auto result = support::train_once<Identity, 3, 3, Loss>(
          mesh, {2, 5, 7}, identity, reference.values("prediction"), {5, 7}, reference.values("target"),
          weighted ? reference.values("weight") : std::vector<double>{});
      CHECK(result.output == reference.values("prediction"));
      CHECK(relative_error(std::vector<double>{result.loss}, reference.values(prefix + "loss")) < 1e-14);
      CHECK(relative_error(result.input_gradient, reference.values(prefix + "grad_prediction")) < 1e-14);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

/// The sentence with which step() refuses; checks that every rank of the world throws the same one.
template <class Step>
std::string refusal(Step step) {
  std::string sentence;
  try {
    step();
  } catch (const hg::CollectiveError& error) {
    sentence = error.what();
  }
  std::string first = sentence;
  first.resize(500, ' ');
  support::world().broadcast(first.data(), first.size(), 0);
  CHECK(first.substr(0, first.find_last_not_of(' ') + 1) == sentence);
  return sentence;
}

bool says(const std::string& sentence, const std::string& words) { return sentence.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("weighted mean squared error and its gradient") { check_loss<hg::MeanSquaredError>("mse", "", true); }
TEST_CASE("mean squared error without weights") { check_loss<hg::MeanSquaredError>("mse", "unweighted_", false); }
TEST_CASE("absolute and Huber's error, cross entropy of logits, weighted or not") {
  for (const bool weighted : {true, false}) {
    const std::string prefix = weighted ? "." : ".unweighted_";
    check_loss<hg::MeanAbsoluteError>("losses", "l1" + prefix, weighted);
    check_loss<hg::HuberLoss>("losses", "huber" + prefix, weighted);
    check_loss<hg::BinaryCrossEntropyWithLogits>("losses", "bce_with_logits" + prefix, weighted);
  }
}

/// The losses of make_loss_references.py compare fields of six channels, the outputs of this network.
using Six = hg::Conv2d<6, 6, hg::Kernel<3>, hg::Padding<1>>;
constexpr std::array<hg::index_t, 4> six_extents{2, 6, 3, 7};
const support::Reference& losses_reference() {
  static const support::Reference reference("point_losses");
  return reference;
}
const support::Reference& training_reference() {
  static const support::Reference reference("trained_losses");
  return reference;
}
struct Reduction {
  const char* name;
  hg::LossReduction value;
};
constexpr Reduction reductions[] = {
    {"mean", hg::LossReduction::mean}, {"sum", hg::LossReduction::sum}, {"batch_mean", hg::LossReduction::batch_mean}};

/// f(mesh) on all meshes that leave each rank a piece, which are one at least.
template <class F>
void on_meshes_of_six(F f) {
  for (const auto& mesh : support::meshes(2)) {
    if (support::leaves_a_piece_empty<Six, Field<6>>(mesh, six_extents)) continue;
    CAPTURE(support::text(mesh));
    f(mesh);
  }
}

/// A field of Channels channels from the whole array.
template <int Channels, class V = double>
auto six_field(const hg::DeviceMesh<support::Mesh>& mesh, const std::vector<double>& values) {
  using F = typename support::WithValues<Field<Channels>, V>::type;
  return hg::distribute_tensor<F>(mesh, {2, Channels, 3, 7}, support::as<V>(values));
}

/// Four steps by a loss, with whole and with sharded parameters: losses and parameters as PyTorch's.
template <class Loss, class Label, class Weight>
void check_training(const hg::DeviceMesh<support::Mesh>& mesh, const std::string& name, const Loss& loss,
                    const Label& label, const Weight& weight) {
  const support::Reference& reference = training_reference();
  const hg::AdamW settings{.lr = 0.02, .weight_decay = 0.1};
  const auto shards = hg::shard_parameters<"data", "height">;
  const auto image = six_field<6>(mesh, losses_reference().values("prediction"));
  hg::Parameters<Six, double> start;
  start.copy_from_host(reference.values("start"));
  hg::Trainer<Six, hg::AdamW, support::Mesh, double> whole(Six{}, settings, mesh);
  hg::Trainer<Six, hg::AdamW, support::Mesh, double, std::remove_const_t<decltype(shards)>> sharded(Six{}, settings,
                                                                                                    mesh, {}, shards);
  hg::Parameters<Six, double>(whole.parameters()).copy_from_host(start.to_host());
  const auto pieces = hg::redistribute(start, mesh, shards);
  Kokkos::deep_copy(sharded.parameters().view(), pieces.view());
  std::vector<double> of_whole, of_sharded;
  for (int step = 0; step < 4; ++step) {
    of_whole.push_back(whole.step(loss, image, label, weight).item());
    of_sharded.push_back(sharded.step(loss, image, label, weight).item());
  }
  CHECK(relative_error(of_whole, reference.values(name + ".losses")) < 1e-12);
  CHECK(relative_error(of_sharded, reference.values(name + ".losses")) < 1e-12);
  const std::vector<double> trained = reference.values(name + ".trained");
  CHECK(relative_error(whole.parameters().to_host(), trained) < 1e-12);
  CHECK(relative_error(hg::redistribute<hg::Replicate>(sharded.parameters()).to_host(), trained) < 1e-12);
}

/// Values and gradients by the prediction of a loss with each reduction, weighted or not, then four steps.
template <class Loss, int Label = 6, class V = double, class Options>
void check_point_loss(const std::string& name, const std::string& label, Options options,
                      const support::Reference& reference = losses_reference()) {
  const support::Reference& fields = losses_reference();
  std::vector<double> identity(6 * 6 * 9 + 6);
  for (std::size_t c = 0; c < 6; ++c) identity[(6 * c + c) * 9 + 4] = 1;
  on_meshes_of_six([&](const auto& mesh) {
    const auto prediction = six_field<6>(mesh, fields.values(name == "kl" ? "logarithm" : "prediction"));
    const auto labels = six_field<Label, V>(mesh, reference.values(label));
    const auto weight = six_field<1>(mesh, fields.values("weight"));
    for (const Reduction& reduction : reductions)
      for (const bool weighted : {false, true}) {
        const std::string key = name + "." + reduction.name + (weighted ? "_weighted." : ".");
        CAPTURE(key);
        options.reduction = reduction.value;
        const auto result = support::train_image<Six, Label, Loss, V>(
            mesh, prediction, identity, reference.values(label),
            weighted ? fields.values("weight") : std::vector<double>{}, Loss(options));
        CHECK(relative_error(std::vector<double>{result.loss}, reference.values(key + "loss")) < 1e-13);
        CHECK(relative_error(result.input_gradient, reference.values(key + "grad_prediction")) < 1e-13);
        const double evaluated =
            weighted ? hg::evaluate(Loss(options), prediction, labels, weight) : Loss(options)(prediction, labels);
        CHECK(relative_error(std::vector<double>{evaluated}, reference.values(key + "loss")) < 1e-13);
      }
    CAPTURE(name);
    options.reduction = hg::LossReduction::mean;
    check_training(mesh, name, Loss(options), labels, weight);
  });
}

TEST_CASE("losses of each channel: values, gradients and training as PyTorch's, with each reduction and weights") {
  check_point_loss<hg::MeanSquaredError>("mse", "target", hg::LossOptions{});
  check_point_loss<hg::MeanAbsoluteError>("l1", "target", hg::LossOptions{});
  check_point_loss<hg::HuberLoss>("huber", "target", hg::HuberOptions{.delta = 0.3});
  check_point_loss<hg::SmoothL1Loss>("smooth_l1", "target", hg::SmoothL1Options{.beta = 0.3});
  check_point_loss<hg::BinaryCrossEntropyWithLogits>("bce", "probability_each",
                                                     hg::BinaryCrossEntropyOptions{.pos_weight = 2.5});
  check_point_loss<hg::QuantileLoss>("quantile", "target", hg::QuantileOptions{.q = 0.9});
  check_point_loss<hg::KLDivergence>("kl", "probability", hg::LossOptions{});
}

TEST_CASE("losses of all channels: cross entropy over classes and distributions, and the score of an ensemble") {
  using Index = std::int64_t;
  const auto weight = hg::class_weights({1, 2, 0.5, 0, 3, 1.5});
  check_point_loss<hg::CrossEntropy, 1, Index>("ce", "classes", hg::CrossEntropyOptions{});
  check_point_loss<hg::CrossEntropy, 1, std::int32_t>("ce_ignored", "classes_without_4",
                                                      hg::CrossEntropyOptions{.ignore_index = 4});
  check_point_loss<hg::CrossEntropy, 1, Index>("ce_weighted", "classes",
                                               hg::CrossEntropyOptions{.weight = weight, .label_smoothing = 0.1});
  check_point_loss<hg::CrossEntropy>("ce_distribution", "distribution",
                                     hg::CrossEntropyOptions{.weight = weight, .label_smoothing = 0.2});
  check_point_loss<hg::CRPS, 2>("crps", "pair", hg::CRPSOptions{});
  check_point_loss<hg::CRPS, 2>("crps_fair", "pair", hg::CRPSOptions{.fair = true});
}

TEST_CASE("likelihoods: of counts, of normal distributions whose variance is predicted too, of classes") {
  const support::Reference reference("likelihoods");
  using Index = std::int64_t;
  check_point_loss<hg::PoissonNLLLoss>("poisson", "counts", hg::PoissonNLLOptions{}, reference);
  check_point_loss<hg::PoissonNLLLoss>("poisson_full", "counts", hg::PoissonNLLOptions{.full = true}, reference);
  check_point_loss<hg::PoissonNLLLoss>("poisson_mean", "counts", hg::PoissonNLLOptions{.log_input = false, .eps = 4},
                                       reference);
  check_point_loss<hg::GaussianNLLLoss, 3>("gaussian", "triple", hg::GaussianNLLOptions{.eps = 0.25}, reference);
  check_point_loss<hg::GaussianNLLLoss, 3>("gaussian_full", "triple", hg::GaussianNLLOptions{.full = true, .eps = 0.5},
                                           reference);
  check_point_loss<hg::NLLLoss, 1, Index>(
      "nll", "classes", hg::NLLOptions{.weight = hg::class_weights({1, 2, 0.5, 0, 3, 1.5})}, reference);
}

/// Points of weight 0 whose predictions and labels are NaN, or no classes: loss and gradient are those without them.
template <class Loss, int Label = 6, class V = double>
void check_uncounted(const Loss& loss, const std::vector<double>& labels,
                     double no_label = std::numeric_limits<double>::quiet_NaN()) {
  using One = hg::Conv2d<6, 6>;
  std::vector<double> same(6 * 6 + 6);
  for (std::size_t c = 0; c < 6; ++c) same[7 * c] = 1;
  auto weight = losses_reference().values("weight"), prediction = losses_reference().values("prediction");
  auto spoilt = prediction, spoilt_labels = labels;
  constexpr std::size_t points = 3 * 7;
  for (std::size_t i = 0; i < weight.size(); i += 3) weight[i] = 0;
  for (std::size_t i = 0; i < spoilt.size(); ++i)
    if (weight[i / points / 6 * points + i % points] == 0) spoilt[i] = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (weight[i / points / Label * points + i % points] == 0) spoilt_labels[i] = no_label;
  on_meshes_of_six([&](const auto& mesh) {
    const auto run = [&](const std::vector<double>& x, const std::vector<double>& y) {
      return support::train_image<One, Label, Loss, V>(mesh, six_field<6>(mesh, x), same, y, weight, loss);
    };
    const auto expected = run(prediction, labels), result = run(spoilt, spoilt_labels);
    CHECK(std::isfinite(result.loss));
    CHECK(result.loss == expected.loss);
    CHECK(result.input_gradient == expected.input_gradient);
    for (std::size_t i = 0; i < spoilt.size(); ++i)
      if (std::isnan(spoilt[i])) CHECK(result.input_gradient[i] == 0);
    CHECK(hg::evaluate(loss, six_field<6>(mesh, spoilt), six_field<Label, V>(mesh, spoilt_labels),
                       six_field<1>(mesh, weight)) == doctest::Approx(expected.loss).epsilon(1e-14));
  });
}

TEST_CASE("points of weight 0 do not count, even where predictions and labels are NaN: losses and gradients") {
  const support::Reference &fields = losses_reference(), likelihoods("likelihoods");
  const auto target = fields.values("target"), classes = fields.values("classes");
  check_uncounted(hg::mse, target);
  check_uncounted(hg::l1, target);
  check_uncounted(hg::huber, target);
  check_uncounted(hg::smooth_l1, target);
  check_uncounted(hg::QuantileLoss({.q = 0.9}), target);
  check_uncounted(hg::bce_with_logits, fields.values("probability_each"));
  check_uncounted(hg::kl_div, fields.values("probability"));
  check_uncounted(hg::poisson_nll, likelihoods.values("counts"));
  check_uncounted<hg::GaussianNLLLoss, 3>(hg::gaussian_nll, likelihoods.values("triple"));
  check_uncounted<hg::CRPS, 2>(hg::crps, fields.values("pair"));
  check_uncounted<hg::CrossEntropy, 1, std::int64_t>(hg::cross_entropy, classes, 99);
  check_uncounted<hg::CrossEntropy>(hg::cross_entropy, fields.values("distribution"));
  check_uncounted<hg::NLLLoss, 1, std::int64_t>(hg::nll, classes, 99);
  // Dice is an expression
  auto weight = fields.values("weight"), prediction = fields.values("probability"),
       segments = training_reference().values("segments");
  for (std::size_t i = 0; i < weight.size(); i += 3) weight[i] = 0;
  on_meshes_of_six([&](const auto& mesh) {
    const auto dice = [&](const std::vector<double>& p, const std::vector<double>& y) {
      return hg::dice(six_field<6>(mesh, p), six_field<6>(mesh, y), six_field<1>(mesh, weight)).item();
    };
    auto spoilt = prediction, spoilt_segments = segments;
    for (std::size_t i = 0; i < spoilt.size(); ++i)
      if (weight[i / 21 / 6 * 21 + i % 21] == 0)
        spoilt[i] = spoilt_segments[i] = std::numeric_limits<double>::quiet_NaN();
    CHECK(std::isfinite(dice(spoilt, spoilt_segments)));
    CHECK(dice(spoilt, spoilt_segments) == dice(prediction, segments));
  });
}

TEST_CASE("losses lose no digits at their ends, in float") {
  const auto near = [](double value, double expected) { CHECK(value == doctest::Approx(expected).epsilon(3e-7)); };
  const hg::kernels::CrossEntropyOfLogit bce, heavy{3};
  for (const double p : {-80.0, -16.0, -1.0, 0.0, 2.0, 16.0, 80.0})
    for (const double y : {0.0, 0.25, 1.0}) {
      CAPTURE(p);
      CAPTURE(y);
      const double s = 1 / (1 + std::exp(-p)), of_other = 1 / (1 + std::exp(p));  // s and 1 - s
      const double log_s = p > 0 ? -std::log1p(std::exp(-p)) : p - std::log1p(std::exp(p));
      const double log_other = log_s - p, other = p > 0 ? log_other : -std::log1p(std::exp(p));
      near(bce.value(float(p), float(y)), -y * log_s - (1 - y) * other);
      near(heavy.value(float(p), float(y)), -3 * y * log_s - (1 - y) * other);
      if (y != 0.25) {  // otherwise slopes cross 0
        near(bce.slope(float(p), float(y)), (1 - y) * s - y * of_other);
        near(heavy.slope(float(p), float(y)), (1 - y) * s - 3 * y * of_other);
      }
    }
  near(bce.value(-16.0f, 0.0f), 1.1253516738e-7);  // log(1 + e^-16); 0 in a sum of 16 and -16

  // scores of 1000 and 984: -log softmax is log(1 + e^-16), the derivative by the larger score -e^-16 / (1 + e^-16)
  const hg::kernels::CrossEntropyOfClass of_class;
  const float scores[] = {984, 1000};
  float gradient[2];
  const std::int64_t label = 1;
  const hg::kernels::ChannelsAt<float> to{gradient, 1};
  near(of_class.point(2, scores, &label, 1.0f, to), 1.1253516738e-7);
  near(gradient[0], 1.1253516100e-7);
  near(gradient[1], -1.1253516100e-7);
  const hg::kernels::CrossEntropyOfDistribution of_distribution;
  const float wanted[] = {0, 1};
  near(of_distribution.point(2, scores, wanted, 1.0f, to), 1.1253516738e-7);

  // a class of weight 0 does not count, and scores of -infinity do not where nothing is wanted of them
  const double weights[] = {1, 0, 1};
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const float spoilt[] = {nan, 1, 2}, shut[] = {0, -infinity, 0};
  float three[3] = {1, 1, 1};
  const hg::kernels::CrossEntropyOfClass weighted{{{weights}}};
  const hg::kernels::LikelihoodOfClass likelihood{{{weights}}};
  const hg::kernels::ChannelsAt<float> to_three{three, 1};
  CHECK(weighted.point(3, spoilt, &label, 1.0f, to_three) == 0);
  CHECK(three[0] + three[1] + three[2] == 0);
  CHECK(likelihood.point(3, shut, &label, 1.0f, to_three) == 0);
  const float even[] = {0.5f, 0, 0.5f};
  near(of_distribution.point(3, shut, even, 1.0f, to_three), std::log(2.0));
  CHECK(std::isnan(hg::kernels::KullbackLeibler::value(0.0f, nan)));  // PyTorch's xlogy too
}

TEST_CASE("the soft Dice loss loses no digits in float") {
  const auto mesh = support::alone<support::Mesh>();
  using Image = support::FieldOn<support::Mesh, float, 1>;
  const auto of = [&](float number) {
    return hg::distribute_tensor<Image>(mesh, {1, 1, 3, 5}, std::vector<float>(15, number));
  };
  const double found = hg::dice(of(1 - 0x1p-24f), of(1), {.smooth = 0}).item();  // (1 - p) / (1 + p)
  CHECK(found == doctest::Approx(0x1p-24 / (2 - 0x1p-24)).epsilon(1e-6));
}

TEST_CASE("the soft Dice loss: values, gradients and training by MONAI's formula, with each reduction and weights") {
  const support::Reference& reference = training_reference();
  on_meshes_of_six([&](const auto& mesh) {
    const auto prediction = six_field<6>(mesh, losses_reference().values("prediction"));
    const auto segments = six_field<6>(mesh, reference.values("segments"));
    const auto weight = six_field<1>(mesh, losses_reference().values("weight"));
    const auto check = [&](const std::string& key, auto f) {
      CAPTURE(key);
      const auto [loss, gradient] = hg::value_and_grad(f)(prediction);
      CHECK(relative_error(std::vector<double>{loss}, reference.values(key + "loss")) < 1e-13);
      CHECK(relative_error(hg::full_tensor(gradient), reference.values(key + "grad_prediction")) < 1e-12);
    };
    for (const Reduction& reduction : reductions)
      for (const double smooth : {1e-5, 0.5}) {
        const std::string key = std::string(smooth == 0.5 ? "dice_smooth." : "dice.") + reduction.name;
        const hg::DiceOptions options{.smooth = smooth, .reduction = reduction.value};
        check(key + ".", [&](auto p) { return hg::dice(hg::sigmoid(p), segments, options); });
        check(key + "_weighted.", [&](auto p) { return hg::dice(hg::sigmoid(p), segments, weight, options); });
      }
    const auto dice =
        hg::expression_loss([](const auto& p, const auto& y, const auto& w) { return hg::dice(hg::sigmoid(p), y, w); });
    check_training(mesh, "dice", dice, segments, weight);
  });
}

TEST_CASE("a classifier's step: labels of samples, and what cross entropy refuses, alike on all ranks") {
  using Model = hg::Sequential<hg::Conv2d<2, 3, hg::Kernel<3>, hg::Padding<1>>, hg::GlobalAvgPool>;
  using Labels = support::WithValues<support::LikePrediction<Model, Field<2>, 1>, std::int64_t>::type;
  const auto mesh = support::meshes(2).front();
  const std::array<hg::index_t, 4> extents{2, 2, 12, 24};
  const auto x = hg::distribute_tensor<Field<2>>(mesh, extents, support::numbers<double>(2 * 2 * 12 * 24, 3));
  hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, hg::AdamW{}, mesh);
  const std::vector<double> scores = hg::full_tensor(trainer.predict(x));
  const auto labels = [&](std::int64_t first, std::int64_t second) {
    return hg::distribute_tensor<Labels>(mesh, {2, 1}, std::vector<std::int64_t>{first, second});
  };
  double expected = 0;
  for (std::size_t n = 0; n < 2; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(scores[3 * n + c]);
    expected += (std::log(sum) - scores[3 * n + (n == 0 ? 2 : 1)]) / 2;
  }
  CHECK(trainer.step(hg::cross_entropy, x, labels(2, 1)).item() == doctest::Approx(expected).epsilon(1e-13));
  CHECK(says(refusal([&] { trainer.step(hg::cross_entropy, x, labels(0, 3)); }), "no class of the prediction"));
  CHECK(says(refusal([&] { trainer.step(hg::cross_entropy, x, labels(-100, -100)); }), "all are ignored"));
  const hg::CrossEntropy two({.weight = hg::class_weights({1, 2})});
  CHECK(says(refusal([&] { trainer.step(two, x, labels(0, 1)); }), "2 weights of classes"));
  CHECK(says(refusal([&] { trainer.step(hg::CrossEntropy({.label_smoothing = 2}), x, labels(0, 1)); }), "from 0 to 1"));
  CHECK(says(refusal([] { hg::class_weights({1, -2}); }), "0 or more"));
}

TEST_CASE("five steps of AdamW") {
  using Model = hg::Conv2d<2, 3, hg::Kernel<2>, hg::Bias<false>>;
  using Parameters = hg::Parameters<Model, double>;
  static_assert(Parameters::count == 24);
  const support::Reference reference("adamw");
  const std::vector<double> h = reference.values("hyperparameters"), gradients = reference.values("gradients"),
                            after = reference.values("parameters_after");
  hg::OptimizerState<Model, double> state(
      hg::AdamW{.lr = h[0], .beta1 = h[1], .beta2 = h[2], .eps = h[3], .weight_decay = h[4]});
  Parameters parameters, gradient;
  parameters.copy_from_host(reference.values("parameters"));
  for (std::ptrdiff_t step = 0; step < 5; ++step) {
    gradient.copy_from_host({gradients.begin() + 24 * step, gradients.begin() + 24 * (step + 1)});
    state.step(parameters, gradient);
    const std::vector<double> expected(after.begin() + 24 * step, after.begin() + 24 * (step + 1));
    const std::vector<double> got = parameters.to_host();
    for (std::size_t i = 0; i < 24; ++i) {  // one by one: the gradients differ by 2^80
      CAPTURE(step);
      CAPTURE(i);
      CHECK(std::abs(got[i] - expected[i]) <= 1e-13 * std::abs(expected[i]));
    }
  }
}

TEST_CASE("five steps with the gradient clipped to a norm of 1") {
  using Model = hg::Conv2d<2, 3, hg::Kernel<2>, hg::Bias<false>>;
  const support::Reference reference("adamw");
  const std::vector<double> gradients = reference.values("clipped_gradients"),
                            after = reference.values("clipped_after");
  hg::OptimizerState<Model, double> state(hg::AdamW{.lr = 5e-3, .weight_decay = 0.1, .max_norm = 1});
  hg::Parameters<Model, double> parameters, gradient;
  parameters.copy_from_host(reference.values("parameters"));
  for (std::ptrdiff_t step = 0; step < 5; ++step) {
    gradient.copy_from_host({gradients.begin() + 24 * step, gradients.begin() + 24 * (step + 1)});
    state.step(parameters, gradient);
    CAPTURE(step);
    const std::vector<double> expected(after.begin() + 24 * step, after.begin() + 24 * (step + 1));
    CHECK(relative_error(parameters.to_host(), expected) < 1e-13);
  }
}

TEST_CASE("the norm of many values: one step by the formula") {
  using Model = hg::Conv2d<24, 64, hg::Kernel<7>>;  // many blocks
  using Parameters = hg::Parameters<Model, double>;
  static_assert(Parameters::count > 256 * 256);
  const auto values = support::numbers<double>(Parameters::count, 5);
  double square = 0;
  for (const double g : values) square += g * g;
  const double scale = 0.25 / (std::sqrt(square) + 1e-6);
  Parameters parameters, gradient;
  parameters.copy_from_host(std::vector<double>(Parameters::count, 1));
  gradient.copy_from_host(values);
  hg::OptimizerState<Model, double> state(hg::AdamW{.max_norm = 0.25});
  state.step(parameters, gradient);
  std::vector<double> expected;
  for (const double g : values) expected.push_back(0.1 * scale * g);
  CHECK(relative_error(state.first_moment().to_host(), expected) < 1e-12);
}

TEST_CASE("the learning rate of a schedule, and going on after so many steps, by the formula") {
  using Model = hg::Conv2d<1, 1, hg::Kernel<1>, hg::Bias<false>>;
  const hg::AdamW defaults;
  hg::OptimizerState<Model, double> state(hg::AdamW{.lr = 0.3});
  hg::Parameters<Model, double> parameters, gradient;
  parameters.copy_from_host({0.7});
  double p = 0.7, m = 0, v = 0;
  const auto step = [&](int t, double lr, double g) {
    gradient.copy_from_host({g});
    state.step(parameters, gradient);
    m = defaults.beta1 * m + (1 - defaults.beta1) * g;
    v = defaults.beta2 * v + (1 - defaults.beta2) * g * g;
    p -= lr * defaults.weight_decay * p;
    p -= lr * (m / (1 - std::pow(defaults.beta1, t))) /
         (std::sqrt(v / (1 - std::pow(defaults.beta2, t))) + defaults.eps);
    CHECK(parameters.to_host()[0] == doctest::Approx(p).epsilon(1e-13));
  };
  step(1, 0.3, 0.25);
  for (int t = 2; t < 6; ++t) {
    state.set_learning_rate(0.3 / t);
    CHECK(state.learning_rate() == 0.3 / t);
    step(t, 0.3 / t, 0.5 - 0.2 * t);
  }
  CHECK(state.steps() == 5);
  CHECK(state.first_moment().to_host()[0] == doctest::Approx(m));
  CHECK(state.second_moment().to_host()[0] == doctest::Approx(v));
  CHECK(says(refusal([&] { state.set_learning_rate(-1); }), "lr = -1:"));
  CHECK(state.learning_rate() == 0.3 / 5);
  state.set_steps(99);
  step(100, 0.3 / 5, 0.125);
}

TEST_CASE("AdamW's defaults are PyTorch's") {
  const support::Reference reference("adamw");
  const std::vector<double> h = reference.values("hyperparameters");
  const hg::AdamW defaults;
  CHECK(defaults.lr == 1e-3);
  CHECK(std::vector<double>{defaults.beta1, defaults.beta2, defaults.eps, defaults.weight_decay} ==
        std::vector<double>(h.begin() + 1, h.end()));
}

TEST_CASE("settings with which AdamW goes astray are refused") {
  using State = hg::OptimizerState<Identity, double>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refusal([&] { State(hg::AdamW{.lr = -1}); }) == "AdamW: lr = -1: give a finite number of 0 or more");
  CHECK(refusal([&] { State(hg::AdamW{.beta1 = 1}); }) == "AdamW: beta1 = 1: give 0 or more and less than 1");
  CHECK(says(refusal([&] { State(hg::AdamW{.lr = nan}); }), "lr = nan"));
  CHECK(says(refusal([&] { State(hg::AdamW{.beta2 = nan}); }), "beta2 = nan"));
  CHECK(says(refusal([&] { State(hg::AdamW{.eps = -1e-8}); }), "eps = "));
  CHECK(says(refusal([&] { State(hg::AdamW{.weight_decay = -0.1}); }), "weight_decay = -0.1"));
  CHECK(refusal([&] { State(hg::AdamW{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}); }) == "");
}

TEST_CASE("a label on a mesh that numbers the ranks otherwise is refused") {
  ONLY_ON_RANKS(2, 4, 6, 8);  // of an odd number the one in the middle has one number on both meshes
  const auto& world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  const auto turned = hg::device_mesh<support::Mesh>(world.split(0, -world.rank(), "turned"), {1, 1, -1});
  const Field<3> image(mesh, {2, 3, 5, 12}), label(turned, {2, 3, 5, 12});
  hg::Trainer<Identity, hg::AdamW, support::Mesh, double> trainer(Identity{}, hg::AdamW{}, mesh);
  CHECK_THROWS_WITH_AS(trainer.step(hg::mse, image, label),
                       doctest::Contains("label lies on a mesh where this rank is "), hg::Error);
}

TEST_CASE("weights that sum to nothing, and other extents, are refused on all ranks alike; the next step is right") {
  const support::Reference reference("mse");
  const int ranks = support::world().size();
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {ranks % 2 == 0 ? 2 : 1, 1, -1});
  const std::vector<double> weights = reference.values("weight");
  auto field = [&]<int Channels>(const std::vector<double>& values, hg::index_t height = 5) {
    return hg::distribute_tensor<Field<Channels>>(mesh, {2, Channels, height, 7}, values);
  };
  const auto image = field.template operator()<3>(reference.values("prediction"));
  const auto label = field.template operator()<3>(reference.values("target"));
  const auto weight = field.template operator()<1>(weights);
  hg::Trainer<Identity, hg::AdamW, support::Mesh, double> trainer(Identity{}, hg::AdamW{}, mesh);
  hg::Parameters<Identity, double> parameters = trainer.parameters();  // shallow
  parameters.copy_from_host(identity);

  const auto refused = [&](const auto& one_label, const auto& one_weight) {
    const std::string sentence = refusal([&] { trainer.step(hg::mse, image, one_label, one_weight); });
    CHECK(trainer.parameters().to_host() == identity);
    return sentence;
  };
  CHECK(says(refused(label, field.template operator()<1>(std::vector<double>(70, 0.0))), "weights sum to 0"));
  std::vector<double> not_a_number = weights;
  not_a_number.back() = std::numeric_limits<double>::quiet_NaN();  // on the last rank alone
  CHECK(
      says(refused(label, field.template operator()<1>(not_a_number)), "nan: at least one must be positive, none NaN"));
  std::vector<double> negative(70, -1.0);
  CHECK(says(refused(label, field.template operator()<1>(negative)), "weights sum to -"));

  const auto tall_label = field.template operator()<3>(std::vector<double>(2 * 3 * 6 * 7), 6);
  CHECK(says(refused(tall_label, weight), "label has 6 points in dimension 2"));
  CHECK(says(refused(tall_label, hg::no_weight), "label has 6 points in dimension 2"));
  const auto tall_weight = field.template operator()<1>(std::vector<double>(2 * 6 * 7, 1.0), 6);
  CHECK(says(refused(label, tall_weight), "weight has 6 points in dimension 2"));
  if (mesh.extent(2) > 1) {  // the same extents, but cut elsewhere
    std::array<hg::Cut, 4> cuts{label.cut(0), label.cut(1), label.cut(2), label.cut(3)};
    cuts[3].bounds[1] -= 1;
    CHECK(says(refused(Field<3>(mesh, cuts), weight),
               "label is cut otherwise than the prediction in dimension 3: piece 0 has the points [0, "));
  }

  CHECK(trainer.step(hg::mse, image, label, weight).item() ==
        doctest::Approx(reference.values("loss")[0]).epsilon(1e-12));
  CHECK(trainer.parameters().to_host() != identity);
}

}  // namespace test_loss_optimizer
