// The smallest program that does something: a field, one assignment with a halo, and a number.
#include <halogen/array_language.hpp>

#include <cstdio>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  Field u(hg::device_mesh<Grid>(env.world(), {-1, 1}), {64, 64});
  u = u + 1.f;
  const double mean = hg::mean(u).item();
  if (env.is_root()) std::printf("the mean is %g\n", mean);
}
