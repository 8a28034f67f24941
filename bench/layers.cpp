// conv_norm_relu_16_{forward,backward}, maxpool, groupnorm: 16 channels of 1024 x 1024.
#include "protocol.hpp"

namespace {

using Conv = hg::Conv2d<16, 16, hg::Kernel<3>, hg::Padding<1>>;
using Norm = hg::GroupNorm<8, 16>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    return bench::both<hg::Sequential<Conv, Norm, hg::ReLU>, 16>(options, mesh, "conv_norm_relu_16", 1024) ||
           bench::forward<hg::Sequential<hg::MaxPool2d<2>>, 16>(options, mesh, "maxpool", 1024) ||
           bench::forward<hg::Sequential<Norm>, 16>(options, mesh, "groupnorm", 1024);
  });
}
