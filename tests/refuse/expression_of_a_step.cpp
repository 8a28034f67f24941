// A trainer's step is given an expression as its label.
// expect: why::expression_is_no_field
// expect: write Image v = u + 1; and give v
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Image =
    hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
using Net = hg::Conv2d<1, 1>;

void run(hg::Trainer<Net, hg::AdamW, Grid>& trainer, const Image& image, const Image& mean) {
#ifdef REFUSE
  trainer.step(hg::mse, image, image - mean);
#else
  const Image label = image - mean;
  trainer.step(hg::mse, image, label);
#endif
}
