// conv_norm_relu_16_{forward,backward}, maxpool, groupnorm: 16 channels of 1024 x 1024; upsample_bilinear: from
// 512 x 512 to that.
#include "protocol.hpp"

namespace {

using Conv = hg::Conv2d<16, 16, hg::Kernel<3>, hg::Padding<1>>;
using Norm = hg::GroupNorm<8, 16>;
using Block = hg::Sequential<Conv, Norm, hg::ReLU>;
using Image = bench::Field<16>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    const Image::Extents extents = bench::square(options, 16, 1024);
    return bench::both<Block, Image>(options, mesh, "conv_norm_relu_16", extents) ||
           bench::forward<hg::Sequential<hg::MaxPool2d<2>>, Image>(options, mesh, "maxpool", extents) ||
           bench::forward<hg::Sequential<hg::Upsample<2, hg::Bilinear>>, Image>(options, mesh, "upsample_bilinear",
                                                                                {1, 16, 512, 512}) ||
           bench::forward<hg::Sequential<Norm>, Image>(options, mesh, "groupnorm", extents);
  });
}
