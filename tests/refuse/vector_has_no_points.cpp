// A window of nine points over a vector, behind a global pool: by infer.
// expect: why::vector_has_no_points<2,
// expect: Conv2d<4, 2
// expect: why::path<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Last = hg::Conv2d<4, 2, hg::Kernel<3>, hg::Padding<1>>;
#else
using Last = hg::Linear<4, 2>;
#endif
using Model = hg::Sequential<hg::Conv2d<3, 4>, hg::GlobalAvgPool, Last>;

void run(const hg::Parameters<Model, float>& parameters, const Field& image) { hg::infer(parameters, image); }
