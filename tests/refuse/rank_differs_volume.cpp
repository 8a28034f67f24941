// A model of planes is given a volume: by infer.
// expect: why::rank_differs<4, 5>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "depth", "height">;
using Image = hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn, hg::dyn>;
using Volume = hg::Sharded<Image, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Model = hg::Conv2d<3, 1, hg::Kernel<3>, hg::Padding<1>>;
#else
using Model = hg::Conv3d<3, 1, hg::Kernel<3>, hg::Padding<1>>;
#endif

void run(const hg::Parameters<Model, float>& parameters, const Volume& image) { hg::infer(parameters, image); }
