// conv3d_8_{forward,backward}: one 3 x 3 x 3 convolution with bias, 8 channels of 128^3.
#include "protocol.hpp"

namespace {

using Model = hg::Sequential<hg::Conv3d<8, 8, hg::Kernel<3>, hg::Padding<1>>>;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, hg::dyn, hg::dyn>, bench::Mesh, hg::Shard<2>,
                          hg::Shard<3>>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    return bench::both<Model, Image>(options, mesh, "conv3d_8", {1, 8, 128, 128, 128});
  });
}
