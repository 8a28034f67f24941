// A program for the access guard: it copies as it should, or touches device memory on the host.
#include <cstdio>
#include <string_view>
#include "support/convolutions.hpp"

using Grid = hg::Mesh<"rows">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>>;
using Model = hg::Sequential<hg::Conv2d<1, 1>>;

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const std::string_view what = argc > 1 ? argv[1] : "";
  Field u(hg::device_mesh<Grid>(env.world(), {-1}), {4, 3});
  u.copy_from_host(std::vector<float>(u.to_host().size(), 2.f));
  Field v = u + hg::shift<0, 1>(u);
  hg::Parameters<Model, float> parameters;
  parameters.copy_from_host({1.f, 2.f});
  if (what == "read") std::printf("%g\n", static_cast<double>(v.to_local()(1, 1)));
  if (what == "write") parameters.data()[1] = 3.f;
  return hg::sum(v).item() > 0 && parameters.to_host()[1] == 2.f ? 0 : 1;
}
