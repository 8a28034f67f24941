// Class scores are vectors of samples, equal on the ranks that share a sample: a label that is cut there is none. By a
// trainer's step.
// expect: why::placements_differ<1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>>;
using Model = hg::Sequential<hg::Conv2d<3, 4>, hg::GlobalAvgPool, hg::Linear<4, 2>>;

#ifdef REFUSE
using Height = hg::Shard<0>;
#else
using Height = hg::Replicate;
#endif
using Label = hg::Sharded<hg::Tensor<float, hg::dyn, 2>, Grid, hg::Shard<0>, Height>;

void run(hg::Trainer<Model, hg::AdamW, Grid>& trainer, const Field& image, const Label& label) {
  trainer.step(hg::mse, image, label);
}
