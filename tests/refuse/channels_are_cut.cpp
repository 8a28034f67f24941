// A mesh dimension cuts the channels, which a window needs whole: by infer.
// expect: why::channels_are_cut<1, 1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;

#ifdef REFUSE
using Height = hg::Shard<1>;
#else
using Height = hg::Shard<2>;
#endif
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, Height, hg::Shard<3>>;

void run(const hg::Parameters<hg::Conv2d<3, 1>, float>& parameters, const Field& image) {
  hg::infer(parameters, image);
}
