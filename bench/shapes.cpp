// conv2d_{17_1023,24to40,5x5}_{forward,backward}: convolutions beside those that kernels are tuned for.
#include "protocol.hpp"

namespace {

template <int In, int Out, int Kernel>
using Model = hg::Sequential<hg::Conv2d<In, Out, hg::Kernel<Kernel>, hg::Padding<Kernel / 2>>>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    return bench::both<Model<17, 17, 3>, bench::Field<17>>(options, mesh, "conv2d_17_1023", {1, 17, 1023, 1023}) ||
           bench::both<Model<24, 40, 3>, bench::Field<24>>(options, mesh, "conv2d_24to40", {1, 24, 512, 512}) ||
           bench::both<Model<16, 16, 5>, bench::Field<16>>(options, mesh, "conv2d_5x5", {1, 16, 1024, 1024});
  });
}
