// conv2d_{8,16,32}_forward: one 3 x 3 convolution with bias, as many channels out as in, padding 1.
#include "protocol.hpp"

namespace {

template <int Channels>
struct Model : hg::Sequential<hg::Conv2d<Channels, Channels, hg::Kernel<3>, hg::Padding<1>>> {};

template <int Channels>
bool run(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh, hg::index_t size) {
  if (options.name != "conv2d_" + std::to_string(Channels) + "_forward") return false;
  bench::measure_model<Model<Channels>, Channels, Channels>(options, mesh, size, false);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    return run<8>(options, mesh, 1024) || run<16>(options, mesh, 1024) || run<32>(options, mesh, 512);
  });
}
