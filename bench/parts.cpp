// What ResNets, ConvNeXts and decoders are made of: depthwise_7x7, batchnorm and layernorm (over channels), each
// _{forward,backward}, adaptive_avg_pool (to 7 x 7), upsample_bicubic; and adamw, one update of 2^24 parameters.
#include "protocol.hpp"

namespace {

using Depthwise = hg::Conv2d<64, 64, hg::Kernel<7>, hg::Padding<3>, hg::Groups<64>>;
using Pool = hg::AdaptiveAvgPool2d<7, 7>;
using Bicubic = hg::Interpolate<hg::ScaleFactor<2>, hg::Bicubic>;
using Plenty = hg::Sequential<
    hg::Conv2d<2048, 2048, hg::Kernel<1>, hg::Bias<false>>, hg::Conv2d<2048, 2048, hg::Kernel<1>, hg::Bias<false>>,
    hg::Conv2d<2048, 2048, hg::Kernel<1>, hg::Bias<false>>, hg::Conv2d<2048, 2048, hg::Kernel<1>, hg::Bias<false>>>;

/// The step of an optimiser alone, from a gradient that is given.
bool update(const bench::Options& options, const hg::Communicator& world) {
  if (options.name != "adamw") return false;
  auto parameters = hg::initial_parameters<Plenty, float>(1);
  if (bench::writes_parameters(options, parameters)) return true;
  std::vector<float> numbers(parameters.to_host().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = bench::number(static_cast<std::uint32_t>(i));
  hg::Parameters<Plenty, float> gradient("bench::gradient");
  gradient.copy_from_host(numbers);
  hg::OptimizerState<Plenty, float> adamw(hg::AdamW{.lr = 1e-3});
  bench::measure(
      options, world, [&] { adamw.step(parameters, gradient); },
      [&] { return std::vector{bench::root_mean_square(world, parameters.to_host())}; });
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    using Narrow = bench::Field<16>;
    using Wide = bench::Field<64>;
    const auto wide = bench::square(options, 64, 512), narrow = bench::square(options, 16, 1024);
    return bench::both<hg::Sequential<Depthwise>, Wide>(options, mesh, "depthwise_7x7", wide) ||
           bench::both<hg::Sequential<hg::BatchNorm2d<16>>, Narrow>(options, mesh, "batchnorm", narrow) ||
           bench::both<hg::Sequential<hg::LayerNorm<64>>, Wide>(options, mesh, "layernorm", wide) ||
           bench::forward<hg::Sequential<Pool>, Narrow>(options, mesh, "adaptive_avg_pool", narrow) ||
           bench::forward<hg::Sequential<Bicubic>, Narrow>(options, mesh, "upsample_bicubic",
                                                           bench::square(options, 16, 512)) ||
           update(options, mesh.world());
  });
}
