// timeout: 300
// program: networks
// reads: convolutions
// Training is the same on any mesh: in double the loss after 20 steps; in float, where trajectories of ReLU networks
// part by rounding alone, the first prediction and the first gradients.
#include <doctest/doctest.h>

#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/train_once.hpp"

namespace test_training_parity {

namespace {

using Net = hg::UNet<7, 3, 8, hg::Boundary<hg::Zero, hg::Periodic>>;
constexpr hg::index_t height = 24, width = 36;  // 4 ranks in width: 9 columns each, 5 + 4 + 5 + 4 one level below
constexpr double pi = 3.14159265358979323846;

/// A smooth globe and what it should become; weights are cosines of the latitude, with a sector held out.
template <class T>
struct Globe {
  std::vector<T> image, label, weight;

  Globe() {
    for (int c = 0; c < 7; ++c)
      each([&](double y, double x) { image.push_back(T(std::sin((c % 3 + 1) * x + c + 3 * y))); });
    for (int c = 0; c < 3; ++c)
      each([&](double y, double x) { label.push_back(T(std::cos((c + 1) * x) * std::sin(5 * y + c))); });
    each([&](double y, double x) { weight.push_back(x > 2 && x < 3 ? T(0) : T(std::cos(y))); });
    const std::vector<T> noise = support::numbers<T>(image.size(), 5);
    for (std::size_t i = 0; i < image.size(); ++i) image[i] += T(0.3) * noise[i];
  }

 private:
  template <class F>
  static void each(F f) {
    for (hg::index_t i = 0; i < height; ++i)
      for (hg::index_t j = 0; j < width; ++j)
        f(pi * ((static_cast<double>(i) + 0.5) / height - 0.5), 2 * pi * static_cast<double>(j) / width);
  }
};

/// All meshes height x width of the world's ranks that leave no piece empty.
support::Meshes<support::Mesh> planes() { return support::meshes(1); }

double loss_after_20_steps(const hg::DeviceMesh<support::Mesh>& mesh) {
  const Globe<double> globe;
  const auto image = hg::distribute_tensor<support::Field<double, 7>>(mesh, {1, 7, height, width}, globe.image);
  const auto label = hg::distribute_tensor<support::Field<double, 3>>(mesh, {1, 3, height, width}, globe.label);
  const auto weight = hg::distribute_tensor<support::Field<double, 1>>(mesh, {1, 1, height, width}, globe.weight);
  hg::Trainer<Net, hg::AdamW, support::Mesh, double> trainer(Net{}, hg::AdamW{.lr = 5e-3}, mesh, {.seed = 7});
  double loss = trainer.step(hg::mse, image, label, weight).item();
  const double first = loss;
  for (int step = 0; step < 20; ++step) loss = trainer.step(hg::mse, image, label, weight).item();
  CHECK(loss < 0.7 * first);  // it learns
  return loss;
}

/// One rank computes, and all know: cheaper than every rank for itself where ranks outnumber cores.
template <class F>
std::vector<typename std::invoke_result_t<F>::value_type> from_rank_0(F f) {
  using V = typename std::invoke_result_t<F>::value_type;
  std::vector<V> values;
  if (support::world().rank() == 0) values = f();
  std::int64_t size = static_cast<std::int64_t>(values.size());
  support::world().broadcast(&size, sizeof size, 0);
  values.resize(static_cast<std::size_t>(size));
  support::world().broadcast(values.data(), values.size() * sizeof(V), 0);
  return values;
}

}  // namespace

TEST_CASE("double: the loss after 20 steps of AdamW") {
  const double single = from_rank_0([] { return std::vector<double>{loss_after_20_steps(support::alone())}; })[0];
  for (const auto& mesh : planes()) {
    CAPTURE(support::text(mesh));
    CHECK(std::abs(loss_after_20_steps(mesh) - single) < 1e-10 * single);
  }
}

TEST_CASE("float: the first prediction and the first gradients, tensor by tensor") {
  const Globe<float> globe;
  const auto parameters = hg::initial_parameters<Net, float>(7);
  const auto names = hg::parameter_names<Net>();
  struct First {
    std::vector<float> prediction, gradient;
  };
  const auto first = [&](const hg::DeviceMesh<support::Mesh>& mesh) -> First {
    const auto image = hg::distribute_tensor<support::Field<float, 7>>(mesh, {1, 7, height, width}, globe.image);
    const auto label = hg::distribute_tensor<support::Field<float, 3>>(mesh, {1, 3, height, width}, globe.label);
    const auto weight = hg::distribute_tensor<support::Field<float, 1>>(mesh, {1, 1, height, width}, globe.weight);
    auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });
    auto [loss, gradient] = step(parameters);
    hg::Trainer<Net, hg::AdamW, support::Mesh> trainer(Net{}, hg::AdamW{}, mesh, {.seed = 7});
    auto result = trainer.step(hg::mse, image, label, weight);
    CHECK(result.item() == loss);  // the same plan by both ways, so the same bits
    return {hg::full_tensor(result.prediction()), hg::redistribute<hg::Replicate>(gradient).to_host()};
  };
  const First single = first(support::alone());
  for (const auto& mesh : planes()) {
    CAPTURE(support::text(mesh));
    const First here = first(mesh);
    CHECK(support::relative_error(here.prediction, single.prediction) < 1e-6);
    for (std::size_t p = 0; p < names.size(); ++p) {
      CAPTURE(names[p]);
      const auto& shape = hg::Parameters<Net, float>::graph().parameters[static_cast<int>(p)];
      const auto largest = [&](const std::vector<float>& all, int tensor) {
        const auto& s = hg::Parameters<Net, float>::graph().parameters[tensor];
        double size = 0;
        for (hg::index_t i = s.offset; i < s.offset + s.count; ++i)
          size = std::max(size, std::abs(static_cast<double>(all[static_cast<std::size_t>(i)])));
        return size;
      };
      double difference = 0;
      for (hg::index_t i = shape.offset; i < shape.offset + shape.count; ++i)
        difference = std::max(difference, std::abs(static_cast<double>(here.gradient[static_cast<std::size_t>(i)]) -
                                                   static_cast<double>(single.gradient[static_cast<std::size_t>(i)])));
      double size = largest(single.gradient, static_cast<int>(p));
      // The bias before a norm of one channel a group has no effect: its gradient is 0 but for rounding. It is held
      // against the weight of its layer.
      const bool vanishes = names[p] == "enc1.0.bias" || names[p] == "enc1.3.bias" || names[p] == "dec1.0.bias" ||
                            names[p] == "dec1.3.bias";
      if (vanishes) size = largest(single.gradient, static_cast<int>(p) - 1);
      CHECK(difference < 1e-5 * size);
    }
  }
}

}  // namespace test_training_parity
