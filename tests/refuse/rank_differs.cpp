// An image without a batch dimension: by infer.
// expect: why::rank_differs<4, 3>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;

#ifdef REFUSE
using Image = hg::Tensor<float, 3, hg::dyn, hg::dyn>;
#else
using Image = hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>;
#endif
using Field = hg::Sharded<Image, Grid, hg::Shard<0>, hg::Shard<2>, hg::Replicate>;

void run(const hg::Parameters<hg::Conv2d<3, 1>, float>& parameters, const Field& image) {
  hg::infer(parameters, image);
}
