// A layer of an earlier one's name, whose weights have other shapes: by infer.
// expect: why::weights_differ<2,
// expect: Conv2d<4, 4>
// expect: why::path<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 4, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

using Wide = hg::Conv2d<4, 4, hg::Kernel<3>, hg::Padding<1>>;
#ifdef REFUSE
using Second = hg::Conv2d<4, 4>;
#else
using Second = Wide;
#endif
using Model = hg::Sequential<hg::Named<"conv", Wide>, hg::ReLU, hg::Named<"conv", Second>>;

void run(const hg::Parameters<Model, float>& parameters, const Field& image) { hg::infer(parameters, image); }
