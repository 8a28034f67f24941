// A sum that is still due is no value that a window may read: by infer.
// expect: why::input_is_partial<0>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;

#ifdef REFUSE
using Data = hg::Partial<hg::Sum>;
#else
using Data = hg::Replicate;
#endif
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, Data, hg::Shard<2>, hg::Shard<3>>;

void run(const hg::Parameters<hg::Conv2d<3, 1>, float>& parameters, const Field& image) {
  hg::infer(parameters, image);
}
