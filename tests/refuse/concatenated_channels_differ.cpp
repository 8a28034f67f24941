// A network of a concatenation: its channels are the sum of the parts'.
// expect: why::channels_differ<0, 3, 4,
// expect: Conv2d<3, 1>
#include <halogen/halogen.hpp>

using Mesh = hg::Mesh<"height">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
#ifdef REFUSE
using Head = hg::Conv2d<3, 1>;
#else
using Head = hg::Conv2d<4, 1>;
#endif

double use(const hg::Parameters<Head, float>& parameters, const Field& a, const Field& b) {
  return hg::sum(hg::infer(parameters, hg::concatenate<1>(a, b))).item();
}
