// program: training
// ranks: 1 2 4 6
// A trainer with {.check = true}: a number that is not finite ends the step with the field, parameter, layer and point
// that has it first, and nothing is updated.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/refusal.hpp"

namespace test_checked_steps {

namespace {

template <int Channels>
using Field = support::Field<double, Channels>;
constexpr hg::index_t rows = 12, columns = 11;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <int Channels>
Field<Channels> field_on(const hg::DeviceMesh<support::Mesh>& mesh, std::uint64_t stream, hg::index_t at = -1,
                         double value = nan) {
  auto values = support::numbers<double>(2 * Channels * rows * columns, stream);
  if (at >= 0) values[static_cast<std::size_t>(at)] = value;
  return hg::distribute_tensor<Field<Channels>>(mesh, {2, Channels, rows, columns}, values);
}
hg::index_t place(hg::index_t channels, hg::index_t n, hg::index_t c, hg::index_t y, hg::index_t x) {
  return ((n * channels + c) * rows + y) * columns + x;
}

/// Overflows from values of 1e200 on, in its second layer.
using Net = hg::Sequential<hg::Conv2d<2, 4>, hg::Conv2d<4, 4>, hg::BatchNorm2d<4>, hg::SiLU, hg::Conv2d<4, 1>>;

}  // namespace

TEST_CASE("a checked step names field, layer and point, and changes nothing; the next one is that of a fresh trainer") {
  const hg::Adam settings{.lr = 1e-2};
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<2> x = field_on<2>(mesh, 3), bad_x = field_on<2>(mesh, 3, place(2, 1, 1, 7, 9));
    const Field<1> y = field_on<1>(mesh, 5), bad_y = field_on<1>(mesh, 5, place(1, 0, 0, 2, 3));
    hg::Trainer<Net, hg::Adam, support::Mesh, double> checked(Net{}, settings, mesh, {.seed = 3, .check = true}),
        plain(Net{}, settings, mesh, {.seed = 3});
    checked.step(hg::mse, x, y), plain.step(hg::mse, x, y);
    const auto before = checked.parameters().to_host();
    CHECK(before == plain.parameters().to_host());
    const auto said = [&](auto f) { return support::refusal<hg::CollectiveError>(f); };
    const std::string of_image =
        "step 2: the loss is nan; the image is not finite at (1, 1, 7, 9); layer 0 (conv2d with '0.weight') is the "
        "first whose result is not finite, at (1, 0, 7, 9); nothing has been updated";
    CHECK(said([&] { checked.step(hg::mse, bad_x, y); }) == of_image);
    CHECK(said([&] { checked.accumulate(hg::mse, bad_x, y); }) == of_image);
    const auto loss = hg::expression_loss([](const auto& p, const auto& l) { return hg::mean(hg::square(p - l)); });
    CHECK(said([&] { checked.step(loss, bad_x, y); }) == of_image);
    CHECK(said([&] { checked.step(hg::mse, x, bad_y); }) ==
          "step 2: the loss is nan; the label is not finite at (0, 0, 2, 3); nothing has been updated");
    CHECK(said([&] {
            checked.step([&](auto net) { return hg::mean(hg::square(net(bad_x) - y)); });
          }).starts_with("step 2: the loss is nan"));
    // finite, and so is the loss, but not its gradient: that of a square root at 0
    CHECK(said([&] {
            checked.step([&](auto net) { return hg::mean(hg::sqrt(0.0 * net(x))); });
          }).find("the gradient of '0.weight' is the first that is not finite; nothing has been updated") !=
          std::string::npos);
    CHECK(checked.parameters().to_host() == before);  // running statistics too
    CHECK(checked.optimizer_state().steps() == 1);
    checked.accumulate(hg::mse, x, y), plain.accumulate(hg::mse, x, y);
    checked.step(hg::mse, x, y), plain.step(hg::mse, x, y);
    CHECK(checked.parameters().to_host() == plain.parameters().to_host());
  }
}

TEST_CASE("what overflows within the model, and a parameter that is not finite") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<1> y = field_on<1>(mesh, 5);
    const Field<2> large = field_on<2>(mesh, 3, place(2, 0, 1, 4, 5), 1e200);
    hg::Trainer<Net, hg::SGD, support::Mesh, double> trainer(Net{}, hg::SGD{.lr = 1e-2}, mesh, {.check = true});
    auto values = trainer.parameters().to_host();
    for (std::size_t i = 12; i < 28; ++i) values[i] = 1e200;  // of layer 1
    hg::Parameters<Net, double> parameters = trainer.parameters();
    parameters.copy_from_host(values);
    const std::string sentence = support::refusal<hg::CollectiveError>([&] { trainer.step(hg::mse, large, y); });
    CHECK(sentence.find("layer 1 (conv2d with '1.weight') is the first whose result is not finite, at (0, 0, 4, 5); "
                        "nothing has been updated") != std::string::npos);
    CHECK(sentence.find("image") == std::string::npos);
    values[13] = nan;
    parameters.copy_from_host(values);
    CHECK(support::refusal<hg::CollectiveError>([&] { trainer.step(hg::mse, field_on<2>(mesh, 3), y); })
              .starts_with("step 1: the loss is nan; parameter '1.weight' is the first that is not finite before it; "
                           "layer 1 (conv2d with '1.weight') is the first"));
  }
}

TEST_CASE("with parameters in shards, and of a vector") {
  using Classifier = hg::Sequential<hg::Conv2d<2, 4>, hg::GlobalAvgPool, hg::Linear<4, 3>>;
  using Classes =
      hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, 1>, support::Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<2> bad = field_on<2>(mesh, 3, place(2, 1, 0, 3, 2), std::numeric_limits<double>::infinity());
    hg::Trainer<Classifier, hg::SGD, support::Mesh, double, hg::ShardParameters<"data">> trainer(
        Classifier{}, hg::SGD{.lr = 1e-2}, mesh, {.check = true}, hg::shard_parameters<"data">);
    const auto kinds = hg::distribute_tensor<Classes>(mesh, {2, 1}, std::vector<std::int64_t>{0, 2});
    CHECK(support::refusal<hg::CollectiveError>([&] {
            trainer.step(hg::cross_entropy, bad, kinds);
          }).find("; the image is not finite at (1, 0, 3, 2); layer ") != std::string::npos);
    trainer.step(hg::cross_entropy, field_on<2>(mesh, 3), kinds);
    CHECK(trainer.optimizer_state().steps() == 1);
  }
}

}  // namespace test_checked_steps
