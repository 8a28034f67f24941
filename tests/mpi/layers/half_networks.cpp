// ranks: 1 2 3 4
// reads: convolutions
// Networks whose fields are of bfloat16. What a plan stores or sends is rounded once, to nearest; all else is what the
// same network computes of the same numbers in float.
#include <doctest/doctest.h>

#include "halogen/layers/activations/softmax.hpp"
#include "halogen/layers/avg_pool2d.hpp"
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/kokkos_events.hpp"
#include "support/stored.hpp"

namespace {

using hg::bfloat16;
using support::as;
using Numbers = std::vector<float>;
using Globe = hg::Boundary<hg::Zero, hg::Periodic>;

/// Numbers that bfloat16 holds, in (-1, 1).
Numbers held(std::size_t count, std::uint64_t stream) {
  return as<float>(as<bfloat16>(support::numbers<float>(count, stream)));
}
Numbers rounded(const Numbers& values) { return as<float>(as<bfloat16>(values)); }

template <std::size_t Rank>
std::size_t points(const std::array<hg::index_t, Rank>& extents) {
  std::size_t product = 1;
  for (const hg::index_t extent : extents) product *= static_cast<std::size_t>(extent);
  return product;
}

/// Device kernels round the operands of products on tensor cores besides.
constexpr bool rounds_operands = hg::kernels::device::runs_on<hg::execution_space>;
constexpr double unit = 1.0 / 256;  ///< what rounding to bfloat16 changes at most, relative

/// Equal to the bit, or but for the rounding of operands, which changes a sum of products by about `unit`.
bool alike(const Numbers& values, const Numbers& expected) {
  return rounds_operands ? support::relative_error(values, expected) < 2 * unit : values == expected;
}

/// One step with fields of S on the same numbers.
template <class S, class Layer, int In, int Out, class MeshType, std::size_t Rank>
support::Result<float> run(const hg::DeviceMesh<MeshType>& mesh, const std::array<hg::index_t, Rank>& extents,
                           const std::array<hg::index_t, Rank>& out) {
  const auto parameters = support::numbers<float>(static_cast<std::size_t>(hg::Parameters<Layer, float>::count), 1);
  std::array<hg::index_t, Rank - 1> space;
  std::copy(out.begin() + 1, out.end(), space.begin());
  return support::train_once<Layer, In, Out, support::InnerProduct, S>(
      mesh, extents, parameters, held(In * points(extents), 2), space, held(Out * points(out), 3));
}

/// A layer of one stored output, whose cotangents are numbers of bfloat16 (its outputs are as many as a power of two,
/// by which the mean divides): nothing but the output and the input's gradient is rounded, and that once.
template <class Layer, int In, int Out, std::size_t Rank = 3>
void check_rounded_once(const std::array<hg::index_t, Rank>& extents, const std::array<hg::index_t, Rank>& out) {
  support::on_meshes<Layer, In>(extents, [&](const auto& mesh) {
    using MeshType = typename std::decay_t<decltype(mesh)>::mesh_type;
    const auto half = run<bfloat16, Layer, In, Out>(mesh, extents, out);
    const auto single = run<float, Layer, In, Out>(mesh, extents, out);
    CHECK(alike(half.output, rounded(single.output)));
    CHECK(alike(half.input_gradient, rounded(single.input_gradient)));
    CHECK(alike(half.parameter_gradient, single.parameter_gradient));
    const auto alone = run<bfloat16, Layer, In, Out>(support::alone<MeshType>(), extents, out);
    CHECK(half.output == alone.output);  // the same bits as one rank's
    CHECK(half.input_gradient == alone.input_gradient);
    CHECK(half.traffic.messages.count == single.traffic.messages.count);  // halos of half the bytes
    CHECK(2 * half.traffic.messages.bytes == single.traffic.messages.bytes);
    CHECK(half.traffic.all_reduces == single.traffic.all_reduces);
  });
}

double rms_error(const std::vector<double>& values, const std::vector<double>& truth) {
  double difference = 0, size = 0;
  REQUIRE(values.size() == truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    difference += (values[i] - truth[i]) * (values[i] - truth[i]);
    size += truth[i] * truth[i];
  }
  return std::sqrt(difference / size);
}

/// Tensors that the plan stores forward, and in all: each adds an error of `unit` at most.
template <class Model, int In>
std::pair<double, double> stored_tensors() {
  const hg::Plan& plan = hg::plan_of<Model, In, hg::PlanKind::training>;
  int forward = 0;
  for (const hg::StoredTensor& tensor : plan.tensors) forward += !tensor.gradient;
  return {forward, plan.tensors.size()};
}

}  // namespace

TEST_CASE("a layer computes in float and rounds its output once") {
  using hg::Kernel, hg::Padding, hg::Stride;
  check_rounded_once<hg::Conv2d<3, 8, Kernel<3>, Padding<1>, Globe>, 3, 8>({2, 32, 16}, {2, 32, 16});
  check_rounded_once<hg::Conv2d<16, 8, Kernel<3>, Padding<1>, Globe>, 16, 8>({2, 32, 32}, {2, 32, 32});  // Winograd
  check_rounded_once<hg::Conv2d<4, 2, Kernel<3>, Stride<2>, Padding<1>>, 4, 2>({1, 64, 32}, {1, 32, 16});
  check_rounded_once<hg::Conv2d<8, 8, Kernel<3>, Padding<1>, hg::Groups<8>>, 8, 8>({2, 16, 16}, {2, 16, 16});
  check_rounded_once<hg::Conv2d<8, 4, Kernel<5, 3>, Padding<2, 1>, hg::Groups<2>>, 8, 4>({1, 16, 16}, {1, 16, 16});
  check_rounded_once<hg::ConvTranspose2d<8, 4, Kernel<2>, Stride<2>>, 8, 4>({2, 8, 16}, {2, 16, 32});
}
TEST_CASE("volumes, pools and what is stored between them") {
  check_rounded_once<hg::Conv3d<2, 4, hg::Kernel<3>, hg::Padding<1>>, 2, 4>(std::array<hg::index_t, 4>{1, 8, 8, 16},
                                                                            std::array<hg::index_t, 4>{1, 8, 8, 16});
  check_rounded_once<hg::Sequential<support::Takes<4>, hg::AvgPool2d<2>>, 4, 4>({1, 16, 32}, {1, 8, 16});
  check_rounded_once<hg::Sequential<support::Takes<4>, hg::MaxPool2d<2>>, 4, 4>({1, 16, 32}, {1, 8, 16});
  check_rounded_once<hg::Sequential<support::Takes<2>, hg::MaxPool2d<3, hg::Stride<1>, hg::Padding<1>>>, 2, 2>(
      {1, 16, 32}, {1, 16, 32});
  check_rounded_once<hg::Sequential<support::Takes<2>, hg::Upsample<2, hg::Nearest>>, 2, 2>({1, 16, 16}, {1, 32, 32});
  check_rounded_once<hg::Sequential<support::Takes<2>, hg::Upsample<2, hg::Bilinear>>, 2, 2>({1, 16, 16}, {1, 32, 32});
  check_rounded_once<hg::Sequential<support::Takes<2>, hg::Upsample<4, hg::Bilinear>>, 2, 2>({1, 16, 8}, {1, 64, 32});
}

// Errors of tensors are independent, so their squares add.
TEST_CASE("softmax, sums and norms in float; of several stored tensors each adds an error") {
  using hg::Kernel, hg::Padding;
  using Net = hg::Sequential<
      hg::Conv2d<2, 8, Kernel<3>, Padding<1>, Globe>, hg::GroupNorm<2, 8>, hg::ReLU,
      hg::Residual<hg::Sequential<hg::Conv2d<8, 8, Kernel<3>, Padding<1>, Globe>, hg::GroupNorm<4, 8>>>, hg::Softmax,
      hg::SkipConcat<hg::Sequential<hg::AvgPool2d<2>, hg::Conv2d<8, 4>, hg::UpsampleToSkip<hg::Bilinear>>>,
      hg::Conv2d<12, 2>>;
  constexpr std::array<hg::index_t, 3> extents{2, 16, 24};
  const auto truth = run<float, Net, 2, 2>(support::alone(), extents, extents);
  const auto [forward, all] = stored_tensors<Net, 2>();
  support::on_meshes<Net, 2>(extents, [&, forward = forward, all = all](const auto& mesh) {
    const auto half = run<bfloat16, Net, 2, 2>(mesh, extents, extents);
    CHECK(rms_error(as<double>(half.output), as<double>(truth.output)) < std::sqrt(forward) * unit);
    CHECK(rms_error(as<double>(half.input_gradient), as<double>(truth.input_gradient)) < std::sqrt(all) * unit);
    CHECK(rms_error(as<double>(half.parameter_gradient), as<double>(truth.parameter_gradient)) < std::sqrt(all) * unit);
    CHECK(half.loss == doctest::Approx(truth.loss).epsilon(forward * unit));
  });
}

TEST_CASE("as near to double as PyTorch's autocast is, and near that") {
  using Net = hg::UNet<2, 2, 2, Globe, 1>;
  const support::Reference net("unet"), training("unet_training"), autocast("unet_autocast");
  const auto gradient = support::all_parameters<Net>(training, "gradient."),
             gradient_of_autocast = support::all_parameters<Net>(autocast, "gradient.");
  const auto [forward, all] = stored_tensors<Net, 2>();
  const std::array<hg::index_t, 3> extents{2, 18, 22};
  support::on_meshes<Net, 2>(extents, [&, forward = forward, all = all](const auto& mesh) {
    const auto half = support::train_once<Net, 2, 2, hg::MeanSquaredError, bfloat16>(
        mesh, extents, as<float>(support::all_parameters<Net>(net, "")), net.values<float>("input"), {18, 22},
        net.values<float>("target"), net.values<float>("weight"));
    const auto check = [&](const Numbers& ours, const std::vector<double>& truth, const std::vector<double>& theirs,
                           double stages) {
      const double error = rms_error(as<double>(ours), truth);
      CHECK(error < 1.25 * rms_error(theirs, truth));
      CHECK(error < stages * unit);
      CHECK(error > unit / 16);  // it is rounded
      CHECK(rms_error(as<double>(ours), theirs) < 2 * rms_error(theirs, truth));
    };
    check(half.output, net.values("output"), autocast.values("output"), forward);
    check(half.parameter_gradient, gradient, gradient_of_autocast, all);
    CHECK(half.loss == doctest::Approx(net.values("loss")[0]).epsilon(forward * unit));
  });
}

namespace {

using Net = hg::UNet<2, 1, 8, Globe, 2>;
constexpr hg::index_t height = 16, width = 20;

/// image, label and weight of three types, of numbers that all hold.
template <class S, class L = S, class W = S>
struct Training {
  explicit Training(const hg::DeviceMesh<support::Mesh>& mesh)
      : image(of<S, 2>(mesh, 1)),
        label(of<L, 1>(mesh, 2)),
        weight(mesh, {1, 1, height, width}),
        trainer(Net{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3}) {
    Kokkos::deep_copy(weight.to_local(), W(0.5f));
  }
  template <class V, int Channels>
  static support::Field<V, Channels> of(const hg::DeviceMesh<support::Mesh>& mesh, std::uint64_t stream) {
    return hg::distribute_tensor<support::Field<V, Channels>>(mesh, {1, Channels, height, width},
                                                              as<V>(held(Channels * height * width, stream)));
  }
  double step() { return trainer.step(hg::mse, image, label, weight).item(); }
  std::vector<double> losses(int steps) {
    std::vector<double> result;
    for (int t = 0; t < steps; ++t) result.push_back(step());
    return result;
  }

  support::Field<S, 2> image;
  support::Field<L, 1> label;
  support::Field<W, 1> weight;
  hg::Trainer<Net, hg::AdamW, support::Mesh> trainer;
};

}  // namespace

TEST_CASE("a trainer's float parameters learn from fields of bfloat16; labels and weights are of either type") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training<bfloat16> training(mesh);
  static_assert(std::is_same_v<decltype(training.trainer.parameters().to_host()), Numbers>);
  const auto losses = training.losses(4), single = Training<float>(mesh).losses(2);
  CHECK(losses.back() < 0.8 * losses.front());
  for (std::size_t t = 0; t < 2; ++t) CHECK(losses[t] == doctest::Approx(single[t]).epsilon(13 * unit));
  CHECK(Training<bfloat16, float, float>(mesh).losses(2) == std::vector(losses.begin(), losses.begin() + 2));
  CHECK(Training<bfloat16, float, bfloat16>(mesh).losses(2) == std::vector(losses.begin(), losses.begin() + 2));
  CHECK(Training<float, bfloat16, float>(mesh).losses(2) == single);
}

TEST_CASE("predict, infer, value_and_grad, capture and a trainer of both") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, -1});
  Training<bfloat16> training(mesh), captured(mesh);
  Training<float> other(mesh);
  const auto predicted = training.trainer.predict(training.image);
  static_assert(std::is_same_v<decltype(predicted), const support::Field<bfloat16, 1>>);
  const auto before = as<float>(predicted.to_host());
  CHECK(as<float>(hg::infer(training.trainer.parameters(), training.image).to_host()) == before);
  auto with_gradient =
      hg::value_and_grad([&](auto net) { return hg::mse(net(training.image), training.label, training.weight); });
  const auto [loss, gradient] = with_gradient(training.trainer.parameters());
  static_assert(std::is_same_v<decltype(gradient), const hg::Parameters<Net, float, hg::Partial<hg::Sum>>>);
  auto step = captured.trainer.capture(hg::mse, captured.image, captured.label, captured.weight);
  CHECK(loss == training.step());
  CHECK(step().item() == loss);
  training.step();
  step();
  CHECK(captured.trainer.parameters().to_host() == training.trainer.parameters().to_host());
  // One trainer, fields of either type.
  const double of_float = training.trainer.step(hg::mse, other.image, other.label, other.weight).item();
  CHECK(of_float == doctest::Approx(step().item()).epsilon(13 * unit));
  CHECK(as<float>(training.trainer.predict(training.image).to_host()) != before);
}

TEST_CASE("parameters that ranks share are float, too") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training<bfloat16> whole(mesh);
  hg::Trainer trainer(Net{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3}, hg::shard_parameters<"height">);
  const auto losses = whole.losses(2);
  for (const double loss : losses)
    CHECK(trainer.step(hg::mse, whole.image, whole.label, whole.weight).item() == doctest::Approx(loss).epsilon(unit));
  const std::string text =
      hg::explain<support::Field<bfloat16, 2>>(Net{}, mesh, {1, 2, height, width}, hg::shard_parameters<"height">);
  CHECK(text.find(hg::explain(Net{}, whole.image).substr(0, 40)) == 0);
  CHECK(2 * trainer.parameter_memory().parameters == trainer.parameter_memory().optimizer);
}

TEST_CASE("a network in an expression of a field of bfloat16 computes in float") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const Training<bfloat16> half(mesh);
  const Training<float> single(mesh);
  const auto parameters = single.trainer.parameters();
  const auto loss_of = [&](const auto& image) {
    return hg::value_and_grad([&](auto x) { return hg::mean(hg::square(hg::infer(parameters, x))); })(image);
  };
  const auto [loss, gradient] = loss_of(half.image);
  const auto [expected, expected_gradient] = loss_of(single.image);
  CHECK(loss == expected);
  CHECK(as<float>(gradient.to_host()) == rounded(as<float>(expected_gradient.to_host())));
}

TEST_CASE("a step allocates nothing and does not wait") {
  Training<bfloat16> training(support::alone());
  const auto step = [&] { training.trainer.step(hg::mse, training.image, training.label, training.weight); };
  step(), step();
  const support::KokkosEvents events = support::kokkos_events([&] { step(), step(); });
  CHECK(events.text(events.fences) == "");
  CHECK(events.text(events.allocations) == "");
}

TEST_CASE("two bytes a value: in the arena, in messages, in words and dry") {
  using Large = std::array<hg::index_t, 4>;
  constexpr Large extents{1, 2, 2700, 5400};
  const auto dry = hg::dry_mesh<support::Mesh>({1, 8, 8}, 27);
  const auto half = hg::layout_of<support::Field<bfloat16, 2>>(Net{}, dry, extents);
  const auto single = hg::layout_of<support::Field<float, 2>>(Net{}, dry, extents);
  const auto ratio = [](std::size_t a, std::size_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  CHECK(ratio(half.memory().tensors, single.memory().tensors) == doctest::Approx(0.5).epsilon(0.05));  // whole lines
  CHECK(ratio(half.memory().kept, single.memory().kept) == doctest::Approx(0.5).epsilon(0.05));
  CHECK(2 * half.memory().exchange == single.memory().exchange);
  CHECK(half.memory().workspace == single.memory().workspace);
  CHECK(2 * half.traffic().bytes == single.traffic().bytes);
  CHECK(half.traffic().messages == single.traffic().messages);
  const std::string text = hg::explain<support::Field<bfloat16, 2>>(Net{}, dry, extents);
  CHECK(text.find("fields of 2 bytes a value, computed in 4") != std::string::npos);
  CHECK(text.find(std::to_string(half.traffic().bytes) + " bytes") != std::string::npos);

  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training<bfloat16> training(mesh);
  training.step();
  const hg::CommStatistics start = hg::comm_stats();
  training.step();
  const hg::CommStatistics spent = hg::comm_stats() - start;
  const hg::TrafficUse planned = training.trainer.bind_step(training.image)->layout().traffic();
  CHECK(spent.messages == hg::Tally{planned.messages, planned.bytes});
}
