// program: training
// ranks: 1 2 4 5
// Checkpoint<Layer> drops what it writes and computes it again. Beside the same model without it: the same bits of
// losses, weights, moments and running statistics after several steps, less memory, no collective more.
#include <halogen/halogen.hpp>

#include "support/composition.hpp"

namespace test_checkpoint {

namespace {

template <class Layer>
using Plain = Layer;
template <class Layer>
using Again = hg::Checkpoint<Layer>;

template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>>;
using Branch = hg::Sequential<hg::BatchNorm2d<8>, hg::SiLU, Conv<8, 16>, hg::GroupNorm<4, 16>, hg::ReLU, hg::Dropout<>,
                              Conv<16, 8>>;
template <template <class> class Around>
using Blocks = hg::Sequential<Conv<2, 8>, hg::Repeat<Around<hg::Residual<Branch>>, 3>, Conv<8, 2>>;

/// Levels: what a coarser level computes is computed again, the skip connection stays.
template <template <class> class Around>
using Levels =
    hg::Sequential<Around<hg::Sequential<Conv<2, 8>, hg::GroupNorm<2, 8>, hg::ReLU, Conv<8, 8>, hg::ReLU>>,
                   hg::SkipConcat<Around<hg::Sequential<hg::MaxPool2d<2>, Conv<8, 16>, hg::LayerNorm<16>, hg::GELU,
                                                        Conv<16, 8>, hg::UpsampleToSkip<hg::Nearest>>>>,
                   Conv<16, 2>>;

/// Attention, which talks, keeps its result; a map of points and a pool over all points within.
struct Bend {
  template <class T>
  KOKKOS_FUNCTION T operator()(T u) const {
    return u + T(0.25) * u * u;
  }
};
template <template <class> class Around>
using Attends =
    hg::Sequential<hg::Conv2d<2, 8>, hg::Repeat<Around<hg::TransformerBlock<8, hg::MultiheadAttention<8, 2>>>, 2>,
                   Around<hg::Sequential<Conv<8, 8>, hg::Map<Bend>, Conv<8, 8>, hg::LayerNorm<8>, hg::Tanh>>,
                   hg::Conv2d<8, 2>>;

template <class T>
using Field = support::FieldOn<support::Mesh, T, 2>;

/// Losses of the steps, weights with running statistics, and the bytes of the arena.
template <class T>
struct Trained {
  std::vector<double> losses;
  std::vector<T> weights;
  std::size_t arena = 0;
  hg::CommStatistics traffic;
};

/// How a trainer makes its steps.
enum class By { step, captured_step, rollout };

template <class Model, class S, class T, By by = By::step, class... Sharding>
Trained<T> train(const hg::DeviceMesh<support::Mesh>& mesh, const Sharding&... sharding) {
  const auto random = [&](std::uint64_t stream) {
    return hg::distribute_tensor<Field<S>>(mesh, {2, 2, 23, 22},
                                           support::as<S>(support::numbers<double>(2 * 2 * 23 * 22, stream)));
  };
  const auto image = random(3), label = random(7);
  hg::Trainer<Model, hg::AdamW, support::Mesh, T, Sharding...> trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh,
                                                                       {.seed = 5}, sharding...);
  Trained<T> result;
  for (int step = 0; step < 3; ++step) {
    const hg::CommStatistics before = hg::comm_stats();
    if constexpr (by == By::rollout) {
      result.losses.push_back(
          trainer.step([&](auto net) { return hg::mean(hg::square(hg::rollout<2>(net, image) - label)); }));
    } else if constexpr (by == By::captured_step) {
      auto captured = trainer.capture(hg::mse, image, label);
      result.losses.push_back(captured().item());
    } else {
      const auto of_step = trainer.step(hg::mse, image, label);
      result.losses.push_back(of_step.item());
      result.arena = of_step.layout().arena_bytes();
    }
    result.traffic = hg::comm_stats() - before;
  }
  if constexpr (sizeof...(Sharding) > 0)
    result.weights = hg::redistribute<hg::Replicate>(trainer.parameters()).to_host();
  else
    result.weights = trainer.parameters().to_host();
  return result;
}

template <template <template <class> class> class Model, class S, class T, By by = By::step, class... Sharding>
void compare(const hg::DeviceMesh<support::Mesh>& mesh, const Sharding&... sharding) {
  CHECK(hg::parameter_names<Model<Plain>>() == hg::parameter_names<Model<Again>>());
  const Trained<T> kept = train<Model<Plain>, S, T, by>(mesh, sharding...),
                   again = train<Model<Again>, S, T, by>(mesh, sharding...);
  CHECK(again.losses == kept.losses);
  CHECK(again.weights == kept.weights);
  if (by == By::step) CHECK(again.arena < kept.arena);
  CHECK(again.traffic.all_reduces == kept.traffic.all_reduces);
  CHECK(again.traffic.all_gathers == kept.traffic.all_gathers);
  CHECK(again.traffic.reduce_scatters == kept.traffic.reduce_scatters);
}

}  // namespace

TEST_CASE("a model with Checkpoint trains to the bits of the same model without it") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    compare<Blocks, float, float>(mesh);
    compare<Blocks, hg::bfloat16, float>(mesh);
    compare<Levels, double, double>(mesh);
    compare<Attends, float, float>(mesh);
    compare<Blocks, float, float>(mesh, hg::shard_parameters<"data">);
    compare<Levels, double, double, By::captured_step>(mesh);
    compare<Levels, double, double, By::rollout>(mesh);
  }
}

}  // namespace test_checkpoint
