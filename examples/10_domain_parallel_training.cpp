// Domain-parallel training: one sample cut over all ranks trains as it does on one rank, in a fraction of the memory.
//
//   mpirun -n 4 10_domain_parallel_training
//
// Each rank runs the same training twice: on its piece, among all ranks, and on the whole, alone. Losses must agree.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <vector>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Net = hg::Sequential<hg::Conv2d<1, 16, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<4, 16>, hg::ReLU,
                           hg::Conv2d<16, 16, hg::Kernel<3>, hg::Padding<1>, Globe>, hg::GroupNorm<4, 16>, hg::ReLU,
                           hg::Conv2d<16, 1, hg::Kernel<1>>>;
using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

constexpr int steps = 40;
constexpr hg::index_t height = 120, width = 240;

/// Each rank computes its own piece; nobody needs the whole: (1, 1, H/h, W/w).
template <class Value>
Field field_of(const hg::DeviceMesh<Mesh>& mesh, Value value) {
  Field field(mesh, {1, 1, height, width});
  std::vector<double> piece;
  for (hg::index_t y = field.owned(2).begin; y < field.owned(2).end; ++y)
    for (hg::index_t x = field.owned(3).begin; x < field.owned(3).end; ++x)
      piece.push_back(value(0.05 * static_cast<double>(y), 2 * 3.14159265 * static_cast<double>(x) / width));
  field.copy_from_host(piece);
  return field;
}

struct Run {
  std::vector<double> losses;  // the same numbers on every rank
  std::size_t bytes;           // activations, gradients and workspace of this rank
};

/// Nothing in here knows how many ranks there are.
Run train(const hg::DeviceMesh<Mesh>& mesh) {
  const Field image = field_of(mesh, [](double y, double x) { return std::sin(15 * x) * std::cos(3 * y); });
  const Field label = field_of(mesh, [](double y, double x) { return std::cos(15 * x) * std::cos(3 * y); });
  hg::Trainer<Net, hg::AdamW, Mesh, double> trainer(Net{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 7});
  Run run;
  for (int i = 0; i < steps; ++i) {
    const auto step = trainer.step(hg::mse, image, label);
    run.losses.push_back(step.item());
    run.bytes = step.layout().memory().total();
  }
  return run;
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const hg::Communicator& world = env.world();
  const Run cut = train(hg::device_mesh<Mesh>(world, {-1, world.size() % 2 == 0 ? 2 : 1}));
  const Run alone = train(hg::device_mesh<Mesh>(hg::Communicator(), {1, 1}));  // this rank and no other

  double off = 0;
  std::vector<double> least = cut.losses, most = cut.losses;
  world.all_reduce(least.data(), least.size(), hg::ReduceOp::min);
  world.all_reduce(most.data(), most.size(), hg::ReduceOp::max);
  for (std::size_t i = 0; i < most.size(); ++i) off = std::max(off, std::abs(cut.losses[i] / alone.losses[i] - 1));
  double mib = static_cast<double>(cut.bytes) / (1 << 20);
  world.all_reduce(&mib, 1, hg::ReduceOp::max);
  world.all_reduce(&off, 1, hg::ReduceOp::max);

  for (int step = 0; env.is_root() && step < steps; step += 10)
    std::printf("step %2d: loss %.12f on %d rank(s), %.12f on one\n", step, cut.losses[step], world.size(),
                alone.losses[step]);
  if (env.is_root())
    std::printf("largest relative difference %.1e; activations %.2f MiB per rank, %.2f MiB on one rank\n", off, mib,
                static_cast<double>(alone.bytes) / (1 << 20));
  if (least != most) throw hg::CollectiveError("the loss differs between ranks");
  if (!(off < 1e-10)) throw hg::CollectiveError("the loss depends on the number of ranks");
  if (!(cut.losses.back() < 0.5 * cut.losses.front())) throw hg::CollectiveError("it did not learn");
}
