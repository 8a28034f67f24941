// conv_norm_relu_16_{forward,backward}, maxpool, groupnorm: 16 channels of 1024 x 1024; upsample_bilinear: from
// 512 x 512 to that. On a device NAME_bf16 too.
#include "protocol.hpp"

namespace {

using Conv = hg::Conv2d<16, 16, hg::Kernel<3>, hg::Padding<1>>;
using Norm = hg::GroupNorm<8, 16>;
using Block = hg::Sequential<Conv, Norm, hg::ReLU>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& all, const auto& mesh) {
    return bench::with_value_type(all, [&]<class T>(const bench::Options& options) {
      using Image = bench::FieldOf<T, 16>;
      using Twice = hg::Sequential<hg::Upsample<2, hg::Bilinear>>;
      const auto extents = bench::square(options, 16, 1024);
      return bench::both<Block, Image>(options, mesh, "conv_norm_relu_16", extents) ||
             bench::forward<hg::Sequential<hg::MaxPool2d<2>>, Image>(options, mesh, "maxpool", extents) ||
             bench::forward<Twice, Image>(options, mesh, "upsample_bilinear", bench::square(options, 16, 512)) ||
             bench::forward<hg::Sequential<Norm>, Image>(options, mesh, "groupnorm", extents);
    });
  });
}
