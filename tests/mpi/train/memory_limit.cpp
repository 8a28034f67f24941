// program: training
// ranks: 1 2 4 6
// A trainer with a memory limit: the most that Kokkos has given at once stays within it, the steps are those of a
// trainer without a limit to the bit, and a limit that nothing keeps is refused in one sentence on all ranks.
#include <Kokkos_Core.hpp>

#include <map>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/refusal.hpp"

namespace test_memory_limit {

namespace {

/// The most bytes that Kokkos held at once while f ran, beyond what it held before.
template <class F>
std::size_t most_allocated(F f) {
  namespace tools = Kokkos::Tools::Experimental;
  static std::map<const void*, std::uint64_t> blocks;
  static std::uint64_t now, most;
  blocks.clear(), now = most = 0;
  const tools::EventSet before = tools::get_callbacks();
  tools::set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle, const char*, const void* data, std::uint64_t bytes) {
        blocks[data] = bytes;
        now += bytes, most = std::max(most, now);
      });
  tools::set_deallocate_data_callback([](Kokkos_Profiling_SpaceHandle, const char*, const void* data, std::uint64_t) {
    if (const auto block = blocks.find(data); block != blocks.end()) now -= block->second, blocks.erase(block);
  });
  f();
  tools::set_callbacks(before);
  return most;
}

template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>>;
using Blocks =
    hg::Sequential<Conv<2, 16>,
                   hg::Repeat<hg::Residual<hg::Sequential<hg::GroupNorm<4, 16>, hg::SiLU, Conv<16, 16>, hg::Dropout<>,
                                                          hg::BatchNorm2d<16>, hg::ReLU, Conv<16, 16>>>,
                              6>,
                   Conv<16, 2>>;
using Attends = hg::Sequential<hg::Conv2d<2, 8>, hg::Repeat<hg::TransformerBlock<8, hg::MultiheadAttention<8, 2>>, 5>,
                               hg::Conv2d<8, 2>>;

using Field = support::Field<float, 2>;

struct Steps {
  std::vector<double> losses;
  std::vector<float> weights;
  std::size_t held = 0, most = 0;  ///< by the layout, and measured
  double more_work = 0;
};

template <class Model>
Steps steps(const hg::DeviceMesh<support::Mesh>& mesh, std::size_t limit, hg::index_t batch = 2, int parts = 1) {
  const auto random = [&](std::uint64_t stream) {
    const auto values = support::numbers<float>(static_cast<std::size_t>(batch * 2 * 40 * 33), stream);
    return hg::distribute_tensor<Field>(mesh, {batch, 2, 40, 33}, values);
  };
  const Field image = random(3), label = random(7);
  Steps result;
  const auto train = [&] {
    hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh,
                        {.seed = 5, .memory_limit = limit, .micro_batches = parts});
    for (int step = 0; step < 2; ++step) {
      const auto of_step = trainer.step(hg::mse, image, label);
      result.losses.push_back(of_step.item());
      const hg::Layout& layout = of_step.layout();
      result.more_work = layout.chosen() == nullptr ? 0 : layout.chosen()->more_work;
      result.held = layout.memory().total() + layout.memory().exchange + 5 * trainer.parameter_memory().parameters;
    }
    result.weights = trainer.parameters().to_host();
  };
  {  // what the inputs' margins take is the user's
    hg::Trainer trainer(Model{}, hg::AdamW{}, mesh);
    trainer.step(hg::mse, image, label);
  }
  result.most = most_allocated(train);
  return result;
}

template <class Model>
void check(const hg::DeviceMesh<support::Mesh>& mesh) {
  const Steps all = steps<Model>(mesh, 0);
  std::size_t largest = all.held;
  mesh.world().all_reduce(&largest, 1, hg::ReduceOp::max);
  double work = 0;
  for (const double share : {1., 0.93, 0.86}) {
    CAPTURE(share);
    const auto limit = static_cast<std::size_t>(share * static_cast<double>(largest));
    const Steps within = steps<Model>(mesh, limit);
    CHECK(within.most <= limit);
    CHECK(within.most > limit / 3);
    CHECK(within.losses == all.losses);
    CHECK(within.weights == all.weights);
    CHECK((within.more_work > 0) == (share < 1));
    CHECK(within.more_work >= work);
    work = within.more_work;
  }
  CHECK(support::refusal([&] { steps<Model>(mesh, largest / 4); }).find("a step of this model needs at least ") == 0);
}

}  // namespace

TEST_CASE("micro-batches, of two sizes, keep to a memory limit too") {
  const int ranks = support::world().size();
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {ranks % 2 == 0 ? 2 : 1, -1, 1});
  const Steps all = steps<Blocks>(mesh, 0, 5, 2);
  std::size_t limit = all.most;
  mesh.world().all_reduce(&limit, 1, hg::ReduceOp::max);
  limit = limit / 100 * 93;
  const Steps within = steps<Blocks>(mesh, limit, 5, 2);
  CHECK(within.most <= limit);
  CHECK(within.more_work > 0);
  CHECK(within.losses == all.losses);
  CHECK(within.weights == all.weights);
}

TEST_CASE("steps within a memory limit have the bits of steps without, and take no more than it") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    check<Blocks>(mesh);
    check<Attends>(mesh);
  }
}

}  // namespace test_memory_limit
