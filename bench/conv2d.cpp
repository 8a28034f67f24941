// conv2d_{8,16,32,64,128,256}_{forward,backward}: one 3 x 3 convolution with bias, as many channels out as in,
// padding 1. On a device NAME_bf16 too.
#include "protocol.hpp"

namespace {

template <class T, int Channels>
bool run(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh, hg::index_t size) {
  using Model = hg::Sequential<hg::Conv2d<Channels, Channels, hg::Kernel<3>, hg::Padding<1>>>;
  return bench::both<Model, bench::FieldOf<T, Channels>>(options, mesh, "conv2d_" + std::to_string(Channels),
                                                         bench::square(options, Channels, size));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& all, const auto& mesh) {
    return bench::with_value_type(all, [&]<class T>(const bench::Options& options) {
      return run<T, 8>(options, mesh, 1024) || run<T, 16>(options, mesh, 1024) || run<T, 32>(options, mesh, 512) ||
             run<T, 64>(options, mesh, 256) || run<T, 128>(options, mesh, 128) || run<T, 256>(options, mesh, 64);
    });
  });
}
