// Every layer and kernel once, forward and vjp, for the default execution space: what compiles and links here for CUDA
// is what a GPU would run. Started on a GPU it trains one step of each model, or of those that its arguments name, and
// prints the losses.
#include <algorithm>
#include <string>

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

}  // namespace
}  // namespace instantiate

int main(int argc, char** argv) {
  using namespace instantiate;
  hg::Environment env(argc, argv);
  if (env.is_root()) std::puts(env.describe().c_str());
  const auto asked = [&](const std::string& part) {
    return argc < 2 || std::find(argv + 1, argv + argc, part) != argv + argc;
  };
  if (asked("unet")) train_one_step<float, hg::UNet<7, 3, 16, Globe>, 7, 3>(env, 36, 70, 36, 70);
  if (asked("mixed")) train_one_step<double, Mixed, 4, 12>(env, 37, 54, 19, 27);
  if (asked("windows")) train_windows(env);
  if (asked("layers")) train_layers(env);
  if (asked("half")) train_half(env);
  if (asked("attention")) train_attention(env);
  if (asked("volumes")) train_volumes(env);
  if (asked("fields")) step_fields(env);
}
