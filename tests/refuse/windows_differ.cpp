// A pool of planes in a model of volumes: by infer.
// expect: why::windows_differ<2, 2, 3,
// expect: MaxPool2d<2
// expect: why::path<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "depth", "height">;
using Image = hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn, hg::dyn>;
using Volume = hg::Sharded<Image, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Pool = hg::MaxPool2d<2>;
#else
using Pool = hg::MaxPool3d<2, hg::Kernel<1, 2, 2>>;
#endif
using Model = hg::Sequential<hg::Conv3d<3, 4>, hg::ReLU, Pool>;

void run(const hg::Parameters<Model, float>& parameters, const Volume& image) { hg::infer(parameters, image); }
