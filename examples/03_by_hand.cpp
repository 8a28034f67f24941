// What a trainer does, by hand: a loss and its gradient, one all_reduce, one update.
//
//   mpirun -n 4 03_by_hand
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <vector>

using Model = hg::Sequential<hg::Conv2d<1, 8, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 8>, hg::ReLU,
                             hg::Named<"head", hg::Conv2d<8, 1, hg::Kernel<1>>>>;
using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const int width = env.world().size() % 2 == 0 ? 2 : 1;
  auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, width});

  const hg::index_t size = 50;  // cut unevenly where it must be
  std::vector<double> values, blurred, weights;
  for (hg::index_t i = 0; env.is_root() && i < size * size; ++i) {
    const double y = static_cast<double>(i / size), x = static_cast<double>(i % size);
    values.push_back(std::sin(0.7 * x) + std::cos(0.4 * y));
    blurred.push_back(0.9 * std::sin(0.7 * x) + std::cos(0.4 * y));
    weights.push_back(i / size < 5 ? 0 : 1);  // the first five rows do not count
  }
  const auto image = hg::distribute_tensor<Field>(mesh, {1, 1, size, size}, values);
  const auto label = hg::distribute_tensor<Field>(mesh, {1, 1, size, size}, blurred);
  const auto weight = hg::distribute_tensor<Field>(mesh, {1, 1, size, size}, weights);

  auto parameters = hg::initial_parameters<Model, double>(7);  // Replicate: the same on every rank
  hg::OptimizerState<Model, double> optimizer(hg::AdamW{.lr = 2e-2});
  auto value_and_grad = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });

  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    auto [loss, gradient] = value_and_grad(parameters);  // the gradient is Partial: each rank's share of a sum
    // optimizer.step(parameters, gradient) would not compile: why::gradient_is_partial
    const auto whole = hg::redistribute<hg::Replicate>(gradient);  // one all_reduce
    optimizer.step(parameters, whole);
    if (step == 0) first = loss;
    last = loss;
    if (step % 10 == 0 && env.is_root()) std::printf("step %2d: loss %.4f\n", step, loss);
  }

  const Field prediction = hg::infer(parameters, image);  // forward only, nothing kept
  const std::vector<double> all = hg::full_tensor(prediction);
  if (env.is_root()) std::printf("loss %.4f -> %.4f, %zu points predicted\n", first, last, all.size());

  const std::vector<std::string> names = hg::parameter_names<Model>();  // PyTorch's
  for (std::size_t i = 0; env.is_root() && i < names.size(); ++i)
    std::printf("%-12s %5zu values\n", names[i].c_str(), parameters.to_host(static_cast<int>(i)).size());
  if (!(last < 0.2 * first)) throw hg::CollectiveError("it did not learn: loss " + std::to_string(last));
}
