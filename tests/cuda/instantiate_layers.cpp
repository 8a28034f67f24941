// As instantiate.cpp: the layers that stand in no other model there (tests/house/layers.py), and signals.
#include "instantiate.hpp"

namespace instantiate {
namespace {

struct Slope {
  using footprint = hg::Footprint<hg::At<0, -1>, hg::At<0, 0>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T west, T centre, T east) const {
    return (east - west) * centre;
  }
};
struct Times {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};

/// Pads, crops, moves, activations, norms of a point, rotations, a power pool, the largest of parts, patches.
using Rows =
    hg::Sequential<hg::Conv2d<3, 4>, hg::Mish, hg::LeakyReLU<>, hg::LayerNorm<4>, hg::ReflectionPad2d<1>, hg::ELU<>,
                   hg::ConstantPad2d<std::ratio<1, 2>, 1>, hg::Crop2d<1, 2, 2, 1>, hg::SiLU, hg::Roll2d<1, -2>,
                   hg::Flip<3>, hg::RotaryEmbedding2d<1>, hg::SinusoidalEmbedding2d<>, hg::Stencil<Slope, Globe>,
                   hg::Checkpoint<hg::Sequential<hg::Frozen<hg::Conv2d<4, 4>>, hg::LpPool2d<2, 2>>>,
                   hg::AdaptiveMaxPool2d<4, 6>, hg::PatchMerging<4>>;

/// A class and a time of each sample, and a token that it learns.
struct Told : hg::Module<Told> {
  using inputs = std::tuple<hg::FieldInput<2>, hg::VectorInput<1>, hg::VectorInput<1, hg::Indices>>;
  constexpr hg::Traced forward(hg::Traced x, hg::Traced time, hg::TracedIndices kind) const {
    const hg::Traced told = hg::TimeEmbedding<8>{}(time) + hg::Embedding<3, 8>{}(kind) + hg::ClassToken<8>{}(x);
    return hg::Conv2d<8, 2>{}(hg::Map<Times>{}(hg::Conv2d<2, 8>{}(x), hg::expand(told, x)));
  }
};

void train_told(const hg::Environment& env) {
  using Vector = hg::Sharded<hg::Tensor<float, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
  using Kinds = hg::Sharded<hg::Tensor<std::int32_t, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
  auto mesh = hg::device_mesh<Mesh>(env.world(), {1, -1, 1});
  const Field<float, 2> image(mesh, {2, 2, 12, 10});
  const Vector time(mesh, {2, 1});
  const Kinds kind(mesh, {2, 1});
  hg::Trainer trainer(Told{}, hg::AdamW{}, mesh, {.seed = 1});
  const double loss = trainer.step(hg::mse, hg::Inputs{image, time, kind}, image).item();
  if (env.is_root()) std::printf("loss of what was told %.9g\n", loss);
}

void train_signals(const hg::Environment& env) {
  using Line = hg::Mesh<"data", "width">;
  using Signal = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn>, Line, hg::Shard<0>, hg::Shard<2>>;
  using Net = hg::Sequential<hg::Conv1d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm1d<4>, hg::MaxPool1d<2>,
                             hg::ConvTranspose1d<4, 2, hg::Kernel<2>, hg::Stride<2>>>;
  auto mesh = hg::device_mesh<Line>(env.world(), {1, -1});
  const Signal signal(mesh, {2, 2, 24});
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh, {.seed = 1});
  const double loss = trainer.step(hg::mse, signal, signal).item();
  if (env.is_root()) std::printf("loss of signals %.9g\n", loss);
}

/// Parameters in pieces.
void train_sharded_parameters(const hg::Environment& env) {
  using Line = hg::Mesh<"data">;
  using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  const Image image(mesh, {2, 2, 8, 8});
  hg::Trainer trainer(hg::Conv2d<2, 2>{}, hg::AdamW{}, mesh, {.seed = 1}, hg::shard_parameters<"data">);
  const double loss = trainer.step(hg::mse, image, image).item();
  if (env.is_root()) std::printf("loss of sharded parameters %.9g\n", loss);
}

}  // namespace

void train_layers(const hg::Environment& env) {
  train_one_step<float, Rows, 3, 8>(env, 12, 18, 2, 3);
  train_told(env);
  train_signals(env);
  train_sharded_parameters(env);
}

}  // namespace instantiate
