// program: training
// A network applied again and again: its gradient through all steps beside finite differences in double, on every mesh;
// its states without a gradient.
#include <doctest/doctest.h>

#include "support/network.hpp"
#include "support/refusal.hpp"

namespace test_rollout {

namespace {
using Net = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<hg::Zero, hg::Periodic>>,
                           hg::GELU, hg::Conv2d<4, 2>>;
using State = support::Field<double, 2>;
using Held = hg::Parameters<Net, double>;
}  // namespace

TEST_CASE("the gradient through three steps, and the states of a forecast") {
  const hg::Communicator world = support::world();
  constexpr std::array<hg::index_t, 4> extents{2, 2, 11, 17};
  const auto whole = support::numbers<double>(748, 1), target = support::numbers<double>(748, 2);
  const auto parameters = hg::initial_parameters<Net, double>(5);
  double alone = 0;
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<State>(mesh, extents, whole),
               y = hg::distribute_tensor<State>(mesh, extents, target);
    auto after_three = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(hg::rollout<3>(net, x) - y)); });
    const auto [loss, gradient] = after_three(parameters);
    const double value = loss;
    const std::vector<double> slope = hg::redistribute<hg::Replicate>(gradient).to_host();
    if (alone == 0) alone = value;
    CHECK(value == doctest::Approx(alone).epsilon(1e-13));

    std::vector<State> states;
    const State last = hg::rollout(parameters, x, 3, [&](hg::index_t step, const State& state) {
      CHECK(step == static_cast<hg::index_t>(states.size()) + 1);
      states.push_back(state.clone());
    });
    CHECK(states.size() == 3);
    State expected = x.clone();
    for (int step = 0; step < 3; ++step) {
      expected = 1.0 * hg::infer(parameters, expected);
      CHECK(std::ranges::equal(hg::full_tensor(expected), hg::full_tensor(states[static_cast<std::size_t>(step)])));
    }
    CHECK(std::ranges::equal(hg::full_tensor(expected), hg::full_tensor(last)));
    CHECK(hg::mean(hg::square(last - y)).item() == doctest::Approx(value).epsilon(1e-13));

    const std::vector<double> at = parameters.to_host(), along = support::numbers<double>(at.size(), 3);
    const auto loss_at = [&](double h) {
      std::vector<double> moved = at;
      for (std::size_t i = 0; i < at.size(); ++i) moved[i] += h * along[i];
      Held there;
      there.copy_from_host(moved);
      return hg::mean(hg::square(hg::rollout(there, x, 3, [](hg::index_t, const State&) {}) - y)).item();
    };
    double product = 0;
    for (std::size_t i = 0; i < at.size(); ++i) product += slope[i] * along[i];
    constexpr double h = 1e-5;
    CHECK(product == doctest::Approx((loss_at(h) - loss_at(-h)) / (2 * h)).epsilon(1e-7));
    CHECK(std::abs(product) > 1e-4);
  }
  const auto mesh = support::meshes(1).front();
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::rollout(parameters, State(mesh, extents), 0, [](hg::index_t, const State&) {});
        }) == "rollout: 0 steps: give 1 or more");
}

TEST_CASE("a trainer's step by any loss: as by hand, by a loss of fields as step(loss, x, y), and with shards") {
  constexpr std::array<hg::index_t, 4> extents{2, 2, 11, 17};
  const auto loss_of = [](const State& x, const State& y) {
    return [&](auto net) { return hg::mean(hg::square(hg::rollout<2>(net, x) - y)); };
  };
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<State>(mesh, extents, support::numbers<double>(748, 1)),
               y = hg::distribute_tensor<State>(mesh, extents, support::numbers<double>(748, 2));
    hg::Trainer<Net, hg::AdamW, support::Mesh, double> trainer(Net{}, hg::AdamW{.lr = 0.01}, mesh, {.seed = 5});
    const auto parameters = hg::initial_parameters<Net, double>(5);
    hg::OptimizerState<Net, double> by_hand(hg::AdamW{.lr = 0.01});
    auto step = hg::value_and_grad(loss_of(x, y));
    for (int i = 0; i < 3; ++i) {
      const auto [loss, gradient] = step(parameters);
      by_hand.step(parameters, hg::redistribute<hg::Replicate>(gradient));
      CHECK(trainer.step(loss_of(x, y)) == loss);
      CHECK(trainer.parameters().to_host() == parameters.to_host());
    }
    trainer.accumulate(hg::mse, x, y);
    CHECK(support::refusal<hg::CollectiveError>([&] {
            trainer.step(loss_of(x, y));
          }).starts_with("step(loss_of) does not take the mean"));

    using Drops = hg::Sequential<hg::Conv2d<2, 4>, hg::Dropout<std::ratio<1, 4>>, hg::Conv2d<4, 2>>;
    hg::Trainer<Drops, hg::AdamW, support::Mesh, double> of_fields(Drops{}, hg::AdamW{}, mesh, {.seed = 7}),
        of_net(Drops{}, hg::AdamW{}, mesh, {.seed = 7});
    hg::Trainer<Drops, hg::AdamW, support::Mesh, double, hg::ShardParameters<"data", "height">> of_shards(
        Drops{}, hg::AdamW{}, mesh, {.seed = 7}, hg::shard_parameters<"data", "height">);
    const auto mse_of = [&](auto net) { return hg::mse(net(x), y); };
    for (int i = 0; i < 3; ++i) {
      const double expected = of_fields.step(hg::mse, x, y).item();
      CHECK(of_net.step(mse_of) == expected);
      CHECK(of_shards.step(mse_of) == doctest::Approx(expected).epsilon(1e-12));
    }
    CHECK(of_net.parameters().to_host() == of_fields.parameters().to_host());

    // running statistics follow a loss of any kind; each call of the network adds to them
    using Normed = hg::Sequential<hg::Conv2d<2, 4>, hg::BatchNorm2d<4>, hg::Conv2d<4, 2>>;
    hg::Trainer<Normed, hg::AdamW, support::Mesh, double> plain(Normed{}, hg::AdamW{}, mesh, {.seed = 7}),
        free(Normed{}, hg::AdamW{}, mesh, {.seed = 7}), twice(Normed{}, hg::AdamW{}, mesh, {.seed = 7});
    plain.step(hg::mse, x, y);
    free.step([&](auto net) { return hg::mean(hg::square(net(x) - y)); });
    CHECK(support::relative_error(free.parameters().to_host(4), plain.parameters().to_host(4)) < 1e-13);
    CHECK(support::relative_error(free.parameters().to_host(5), plain.parameters().to_host(5)) < 1e-13);
    CHECK(free.parameters().to_host(4) != std::vector<double>(4));
    twice.step([&](auto net) { return hg::mean(hg::square(net(x) - y)) + hg::mean(hg::square(net(x))); });
    const auto once = plain.parameters().to_host(4), again = twice.parameters().to_host(4);
    for (std::size_t c = 0; c < 4; ++c) CHECK(again[c] == doctest::Approx(1.9 * once[c]));  // of 0, then of the first
  }
}

}  // namespace test_rollout
