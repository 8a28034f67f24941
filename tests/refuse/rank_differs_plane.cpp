// A model of volumes is given a plane: by a trainer's step.
// expect: why::rank_differs<5, 4>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Model = hg::Sequential<hg::GroupNorm<1, 3>, hg::MaxPool3d<2>>;
#else
using Model = hg::Sequential<hg::GroupNorm<1, 3>, hg::MaxPool2d<2>>;
#endif

void run(hg::Trainer<Model, hg::AdamW, Grid>& trainer, const Field<3>& image, const Field<3>& label) {
  trainer.step(hg::mse, image, label);
}
