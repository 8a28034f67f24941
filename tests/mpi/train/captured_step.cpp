// transports: mpi nccl
// ranks: 1 2 4
// reads: convolutions
// What makes a step one launch on a device: it allocates nothing and does not wait for the device; a captured step is
// the step, recorded when it must be and refused where it cannot be.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/kokkos_events.hpp"
#include "support/over_nccl.hpp"
#include "support/refusal.hpp"
#include "support/train_once.hpp"

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Net = hg::UNet<2, 1, 4, Globe, 2>;
using Trainer = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
constexpr hg::index_t height = 24, width = 20;

struct Training {
  explicit Training(const hg::DeviceMesh<support::Mesh>& mesh, hg::index_t columns = width)
      : image(of<2>(mesh, columns, 1)),
        label(of<1>(mesh, columns, 2)),
        weight(mesh, {1, 1, height, columns}),
        trainer(Net{}, hg::AdamW{}, mesh, {.seed = 3}) {
    Kokkos::deep_copy(weight.to_local(), 0.5);
  }
  template <int Channels>
  static support::Field<double, Channels> of(const hg::DeviceMesh<support::Mesh>& mesh, hg::index_t columns,
                                             std::uint64_t stream) {
    const std::vector<double> values =
        support::numbers<double>(static_cast<std::size_t>(Channels * height * columns), stream);
    return hg::distribute_tensor<support::Field<double, Channels>>(mesh, {1, Channels, height, columns}, values);
  }

  support::Field<double, 2> image;
  support::Field<double, 1> label, weight;
  Trainer trainer;
};

/// A recorder that runs what it recorded, unless it is told that a device does so, and counts.
struct Recorder {
  static constexpr bool records = true;
  template <class F>
  void record(const hg::execution_space&, F f) {
    launches = f;
    if (idle()) f();
  }
  void launch(const hg::execution_space&) const {
    if (!idle()) launches();
    ++launched();
  }
  /// As a graph: no code of the host runs when it is launched. Nothing else does either.
  static bool& idle() {
    static bool is = false;
    return is;
  }
  static int& launched() {
    static int count = 0;
    return count;
  }
  std::function<void()> launches;
};

template <class Image, class Label, class Weight>
using Recorded = hg::CapturedStep<Trainer, hg::MeanSquaredError, Image, Label, Weight, Recorder>;

}  // namespace

TEST_CASE("a step allocates nothing and does not wait, with weights or without; item() waits once") {
  const bool ordered = support::world().size() == 1 || support::is_over_nccl();  // MPI moves data when the host asks
  Training training(ordered ? hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1}) : support::alone());
  const auto plain = [&] { training.trainer.step(hg::mse, training.image, training.label); };
  const auto weighted = [&] { training.trainer.step(hg::mse, training.image, training.label, training.weight); };
  plain(), weighted();
  for (const std::function<void()>& step : {std::function<void()>(plain), std::function<void()>(weighted)}) {
    const support::KokkosEvents events = support::kokkos_events([&] { step(), step(); });
    CHECK(events.text(events.fences) == "");
    CHECK(events.text(events.allocations) == "");
    CHECK(events.launches.at("halogen::optimizer") == 2);
  }
  const auto step = training.trainer.step(hg::mse, training.image, training.label);
  CHECK(support::KokkosEvents::text(support::kokkos_events([&] { step.item(); }).fences) == "halogen::loss:1 ");
}

TEST_CASE("a kept network infers as a new one does, and allocates nothing from the second image on") {
  const Training training(support::alone());
  const auto& parameters = training.trainer.parameters();
  hg::Network<Net, double> network;
  const auto expected = hg::infer(parameters, training.image).to_host();
  CHECK(network.infer(parameters, training.image).to_host() == expected);
  const auto events = support::kokkos_events([&] { network.infer(parameters, training.image); });
  CHECK(events.text(events.allocations) == "");
  CHECK(network.infer(parameters, training.image).to_host() == expected);
}

TEST_CASE("a captured step is the step") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training plain(mesh), captured(mesh);
  auto step = captured.trainer.capture(hg::mse, captured.image, captured.label, captured.weight);
  for (int t = 0; t < 4; ++t) {
    CAPTURE(t);
    const auto values = support::numbers<double>(plain.image.to_host().size(), static_cast<std::uint64_t>(10 + t));
    plain.image.copy_from_host(values);
    captured.image.copy_from_host(values);
    plain.trainer.set_learning_rate(1e-3 / (t + 1));
    captured.trainer.set_learning_rate(1e-3 / (t + 1));
    const double loss = plain.trainer.step(hg::mse, plain.image, plain.label, plain.weight).item();
    CHECK(step().item() == loss);
  }
  CHECK(captured.trainer.parameters().to_host() == plain.trainer.parameters().to_host());
}

TEST_CASE("recorded in an evaluation's second call, and anew where memory has moved") {
  if (Kokkos::Tools::profileLibraryLoaded()) return;  // the access guard is a tool: nothing is recorded
  const auto mesh = support::alone();
  Training training(mesh), other(mesh), wider(mesh, width + 4);
  Recorded<decltype(training.image), decltype(training.label), decltype(training.weight)> step(
      training.trainer, hg::mse, training.image, training.label, training.weight);
  const auto is_a_step = [&](int recordings, int launches) {
    const double loss = other.trainer.step(hg::mse, other.image, other.label, other.weight).item();
    Recorder::launched() = 0;
    CHECK(step().item() == loss);
    CHECK(step.recordings() == recordings);
    CHECK(Recorder::launched() == launches);
  };
  is_a_step(0, 0);
  is_a_step(1, 1);
  is_a_step(1, 1);
  training.image.copy_from_host(other.image.to_host());  // other values in the same memory
  is_a_step(1, 1);
  training.trainer.predict(training.image);  // another plan, which may make the arena grow
  is_a_step(1, 0);
  is_a_step(2, 1);
  is_a_step(2, 1);
  training.trainer.step(hg::mse, wider.image, wider.label, wider.weight);
  other.trainer.step(hg::mse, wider.image, wider.label, wider.weight);
  is_a_step(2, 0);  // what an evaluation's first step finds out no graph can hold
  is_a_step(3, 1);
  std::array<hg::detail::Margin, 4> margin{};
  margin[3] = {9, 9};
  training.image.reserve_margin(margin);
  is_a_step(4, 1);
  training.trainer.optimizer_state() =
      hg::OptimizerState<Net, double>(hg::AdamW{.lr = 0.1}, training.trainer.parameters());
  other.trainer.optimizer_state() = hg::OptimizerState<Net, double>(hg::AdamW{.lr = 0.1}, other.trainer.parameters());
  is_a_step(5, 1);
  is_a_step(5, 1);
  const auto listened = support::kokkos_events([&] { is_a_step(5, 0); });  // a tool, for which Kokkos waits
  is_a_step(5, 1);
}

TEST_CASE("the loss of a recorded step is its own, whatever step came between") {
  if (Kokkos::Tools::profileLibraryLoaded()) return;  // the access guard is a tool: nothing is recorded
  const auto mesh = support::alone();
  Training training(mesh);
  Recorded<decltype(training.image), decltype(training.label), decltype(training.weight)> step(
      training.trainer, hg::mse, training.image, training.label, training.weight);
  step(), step();
  Recorder::idle() = true;
  const double plain = training.trainer.step(hg::mse, training.image, training.label).item();
  // The sums that the plain step left, divided as the weighted one does: by 0.5 a point.
  CHECK(step().item() == doctest::Approx(2 * plain).epsilon(1e-12));
  Recorder::idle() = false;
}

TEST_CASE("a step's result is of its own evaluation, also where another image's has taken its place") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training training(mesh), wider(mesh, width + 4);
  const auto step = training.trainer.step(hg::mse, training.image, training.label);
  const double loss = step.item();
  training.trainer.bind_step(training.image);  // the same evaluation
  training.trainer.predict(wider.image);       // another plan
  CHECK(step.item() == loss);
  CHECK(&step.layout() == &training.trainer.bind_step(training.image)->layout());
  training.trainer.bind_step(wider.image);
  CHECK_THROWS_WITH_AS(step.item(), doctest::Contains("an earlier step"), hg::Error);
  CHECK_THROWS_WITH_AS(step.layout(), doctest::Contains("another image's has replaced"), hg::Error);
}

TEST_CASE("margins grow on all ranks or on none") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training training(mesh);
  auto sum = training.label.clone();
  for (int far = 1; far <= 3; ++far) {  // nobody needs rows beyond the last rank's piece
    sum = sum + hg::shift<2, 1>(hg::shift<2, 1>(training.label)) * static_cast<double>(far);
    CHECK(training.label.margin_growths() == (mesh.size() > 1 ? 1 : 0));
    CHECK(training.label.storage().margins[2].hi == (mesh.size() > 1 ? 2 : 0));
  }
  training.trainer.predict(training.image);
  std::array<double, 4> most{};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& margin = training.image.storage().margins[2 + side];
    most[2 * side] = static_cast<double>(margin.lo);
    most[2 * side + 1] = static_cast<double>(margin.hi);
  }
  auto sums = most;
  support::world().all_reduce(sums.data(), sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == most[i] * mesh.size());
}

TEST_CASE("a recorded step over ranks is refused, but over NCCL") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  Training training(mesh);
  const std::string sentence = support::refusal<hg::CollectiveError>([&] {
    Recorded<decltype(training.image), decltype(training.label), hg::NoWeight>(
        training.trainer, hg::mse, training.image, training.label, hg::no_weight);
  });
  if (mesh.size() == 1 || support::is_over_nccl())
    CHECK(sentence == "");
  else
    CHECK(
        sentence.starts_with("a step over " + std::to_string(mesh.size()) + " ranks cannot be captured on transport"));
}

TEST_CASE("a loss without weight updates nothing") {
  using Model = hg::Conv2d<1, 2>;
  hg::OptimizerState<Model, double> state(hg::AdamW{}), same(hg::AdamW{});
  hg::Parameters<Model, double> parameters, expected, gradient;
  gradient.copy_from_host({1, 2, 3, std::numeric_limits<double>::quiet_NaN()});
  const Kokkos::View<double, hg::memory_space> weight("weight");
  state.step(parameters, gradient, weight.data());
  CHECK(parameters.to_host() == std::vector<double>(4));
  gradient.copy_from_host({1, 2, 3, 4});
  Kokkos::deep_copy(weight, 2.0);
  state.step(parameters, gradient, weight.data());
  same.step(expected, gradient);
  CHECK(parameters.to_host() == expected.to_host());
  CHECK(expected.to_host()[0] != 0);
}
