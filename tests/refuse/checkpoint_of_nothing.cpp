// A Checkpoint in which nothing would be dropped: the one tensor of its layer is read by the next layer. By step.
// expect: nothing_is_recomputed
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 4, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Model = hg::Sequential<hg::Checkpoint<hg::Conv2d<4, 8>>, hg::Conv2d<8, 4>>;
#else
using Model = hg::Sequential<hg::Checkpoint<hg::Sequential<hg::Conv2d<4, 8>, hg::Conv2d<8, 8>>>, hg::Conv2d<8, 4>>;
#endif

void run(hg::Trainer<Model, hg::SGD, Grid>& trainer, const Field& image) { trainer.step(hg::mse, image, image); }
