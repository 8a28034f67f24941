// As instantiate.cpp: windows of every kind, and several outputs.
#include "instantiate.hpp"

namespace instantiate {
namespace {

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};
/// A map scaled by a vector of its own, and scaled and shifted by others.
struct Excited : hg::Module<Excited> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto v = hg::Linear<12, 12>{}(hg::GlobalAvgPool{}(x));
    const auto y = hg::Map<hg::ModulatedSiLU>{}(x, hg::expand(v, x), hg::expand(hg::Tanh{}(v), x));
    return hg::Map<Product>{}(y, hg::expand(hg::Sigmoid{}(v), x));
  }
};

/// Groups, transposed windows, strided gradients, sums, interpolations, vectors, neighbourhoods, softmax,
/// local response norm.
template <int C>
using Block = hg::Sequential<
    hg::Residual<hg::Sequential<hg::Conv2d<C, C, hg::Kernel<3>, hg::Padding<1>, hg::Groups<C>, Globe>,
                                hg::GroupNorm<2, C>, hg::ReLU, hg::Conv2d<C, C, hg::Groups<2>>, hg::GroupNorm<2, C>>>,
    hg::ReLU>;
using Windows = hg::Sequential<
    hg::Conv2d<3, 4>, Block<4>,
    hg::SkipConcat<hg::Sequential<
        hg::MaxPool2d<2>, hg::ConvTranspose2d<4, 4, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, hg::OutputToSkip>>>,
    hg::SkipConcat<hg::Sequential<hg::Conv2d<8, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>,
                                  hg::UpsampleToSkip<hg::Bilinear>>>,
    hg::Upsample<2, hg::Nearest>, hg::AvgPool2d<2>, hg::BatchNorm2d<12>, Excited, hg::PixelUnshuffle<2>,
    hg::PixelShuffle<2>, hg::Interpolate<hg::Size<36, 54>, hg::Bicubic>,
    hg::Conv2d<12, 4, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<hg::Reflect, hg::ReplicateEdge>>, hg::GELU,
    hg::Conv2d<4, 8>, hg::GLU, hg::PositionEmbedding2d<4, 36, 54>, hg::LayerNormOver<4, 36, 54>, hg::Conv2d<4, 4>,
    hg::NeighborhoodAttention2d<4, 2, hg::Kernel<3>, Globe>, hg::WindowAttention2d<4, 2, hg::Kernel<3>, hg::Shifted<1>>,
    hg::LocalResponseNorm<3>, hg::Softmax>;

/// Several outputs, dropped values, losses of points and of classes.
struct Heads : hg::Module<Heads> {
  constexpr auto forward(hg::Traced x) const {
    const auto h = hg::Dropout<>{}(hg::Conv2d<2, 4>{}(x));
    return std::tuple{hg::Dropout2d<>{}(hg::Conv2d<4, 2>{}(h)), hg::Conv2d<4, 3>{}(hg::DropPath<std::ratio<1, 3>>{}(h)),
                      hg::Conv2d<4, 6>{}(h)};
  }
};

void train_heads(const hg::Environment& env) {
  auto mesh = hg::device_mesh<Mesh>(env.world(), {1, -1, 1});
  const Field<float, 2> image(mesh, {2, 2, 12, 10});
  const Field<std::int64_t, 1> kind(mesh, {2, 1, 12, 10});
  hg::Trainer trainer(Heads{}, hg::AdamW{}, mesh, {.seed = 1});
  const hg::CrossEntropy classes({.weight = hg::class_weights({1, 2, 3}), .label_smoothing = 0.1});
  const auto noisy = hg::noised(hg::EDM{}, image, {.seed = 2});
  auto step =
      trainer.step(hg::Losses{hg::huber, 0.5 * classes, hg::crps}, noisy.image, hg::Labels{noisy.target, kind, image});
  auto by_hand = hg::value_and_grad([&](auto net) {
    const auto [height, scores, ensemble] = net(image + 0.1f * hg::randn_like(image, {.seed = 3}));
    return hg::mean(hg::square(height)) + hg::mean(scores * scores) + hg::mean(hg::abs(ensemble));
  });
  const double of_expression = std::get<0>(by_hand(trainer.parameters()));
  if (env.is_root()) std::printf("loss of three outputs %.9g, by an expression %.9g\n", step.item(), of_expression);
}

}  // namespace

void train_windows(const hg::Environment& env) {
  train_one_step<float, Windows, 3, 4>(env, 36, 54, 36, 54);
  train_heads(env);
}

}  // namespace instantiate
