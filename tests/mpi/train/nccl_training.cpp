// transports: nccl nccl_windows
// guard: no
// timeout: 300
// program: nccl
// reads: convolutions
// A U-Net trained over NCCL goes the way that it goes over MPI.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/convolutions.hpp"
#include "support/train_once.hpp"

namespace test_nccl_training {

#ifdef HALOGEN_WITH_MPI

namespace {

struct Net : hg::UNet<2, 1, 8, hg::Boundary<hg::Zero, hg::Periodic>> {};
using Grid = hg::Mesh<"data", "height", "width">;

/// The losses and last parameters of four steps on these ranks.
std::vector<double> train(const hg::Communicator& world, const std::array<int, 3>& extents) {
  const auto mesh = hg::device_mesh<Grid>(world, extents);
  using Image =
      hg::Sharded<hg::Tensor<double, hg::dyn, 2, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
  using Label =
      hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
  const int n = 2, h = 48, w = 56;
  const auto values = [](std::size_t count, double step) {
    std::vector<double> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = std::sin(step * static_cast<double>(i));
    return all;
  };
  const auto all = [&](int channels, double step) {
    return world.rank() == 0 ? values(std::size_t(n) * channels * h * w, step) : std::vector<double>();
  };
  const auto image = hg::distribute_tensor<Image>(mesh, {n, 2, h, w}, all(2, 0.7));
  const auto label = hg::distribute_tensor<Label>(mesh, {n, 1, h, w}, all(1, 0.3));
  const Label weight = hg::exp(label);
  hg::Trainer<Net, hg::AdamW, Grid, double> trainer(Net{}, hg::AdamW{.lr = 1e-2f}, mesh, {.seed = 7});
  std::vector<double> result;
  for (int step = 0; step < 4; ++step) result.push_back(trainer.step(hg::mse, image, label, weight).item());
  const std::vector<double> parameters = trainer.parameters().to_host();
  result.insert(result.end(), parameters.begin(), parameters.end());
  return result;
}

}  // namespace

TEST_CASE("four steps over NCCL and over MPI: the same losses and parameters") {
  hg::Environment env;
  const int size = env.world().size();
  const hg::Communicator mpi(hg::detail::MpiTransport::duplicate(MPI_COMM_WORLD, "mpi"));
  for (const std::array<int, 3>& extents :
       {std::array{1, size, 1}, std::array{size % 2 == 0 ? 2 : 1, 1, size % 2 == 0 ? size / 2 : size}}) {
    const hg::CommStatistics start = hg::comm_stats();
    const std::vector<double> expected = train(mpi, extents);
    const hg::CommStatistics middle = hg::comm_stats();
    const std::vector<double> found = train(env.world(), extents);
    const hg::CommStatistics end = hg::comm_stats();
    CHECK(end - middle == middle - start);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);  // losses first; AdamW magnifies what rounding leaves of gradients that are zero
      REQUIRE(std::abs(found[i] - expected[i]) <= (i < 4 ? 1e-11 : 1e-8));
    }
  }
}

#endif

}  // namespace test_nccl_training
