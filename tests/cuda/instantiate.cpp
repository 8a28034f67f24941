// Every layer and kernel once, forward and vjp, for the default execution space: what compiles and links here for CUDA
// is what a GPU would run. Started on a GPU it trains one step of each model and prints the losses.
#include "instantiate.hpp"

namespace instantiate {
namespace {

/// Norm of the input (store), strided and dilated windows, overlapping pools, a pool of a norm (store and its vjp),
/// a tensor with two readers that see it differently (gradient sum), an output that is no convolution.
struct Mixed : hg::Module<Mixed> {
  constexpr hg::Traced forward(hg::Traced x) const {
    x = hg::GroupNorm<1, 4>{}(x);
    const auto y = hg::Conv2d<4, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>{}(x);
    const auto both = hg::concat(y, hg::ReLU{}(y));
    x = hg::SkipConcat<hg::Sequential<hg::MaxPool2d<3, hg::Stride<2>>,
                                      hg::Conv2d<8, 4, hg::Kernel<3, 1>, hg::Padding<2, 0>, hg::Dilation<2, 1>>,
                                      hg::UpsampleToSkip<hg::Nearest>>>{}(both);
    return hg::ReLU{}(x);
  }
};

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};
/// A map scaled by a vector of its own.
struct Excited : hg::Module<Excited> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto v = hg::Linear<12, 12>{}(hg::GlobalAvgPool{}(x));
    return hg::Map<Product>{}(x, hg::expand(hg::Sigmoid{}(v), x));
  }
};

/// Groups, transposed windows, strided gradients, sums, interpolations, vectors, softmax.
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
    hg::Conv2d<4, 4>, hg::Softmax>;

}  // namespace
}  // namespace instantiate

int main(int argc, char** argv) {
  using namespace instantiate;
  hg::Environment env(argc, argv);
  if (env.is_root()) std::puts(env.describe().c_str());
  train_one_step<float, hg::UNet<7, 3, 16, Globe>, 7, 3>(env, 36, 70, 36, 70);
  train_one_step<double, Mixed, 4, 12>(env, 37, 54, 19, 27);
  train_one_step<float, Windows, 3, 4>(env, 36, 54, 36, 54);
  train_half(env);
  train_volumes(env);
  step_fields(env);
}
