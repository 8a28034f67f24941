// Four channels in three groups: by Trainer::predict.
// expect: why::groups_do_not_divide<1, 3, 4,
// expect: GroupNorm<3, 4>
// expect: why::path<1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int groups = 3;
#else
constexpr int groups = 2;
#endif
using Model = hg::Sequential<hg::Conv2d<3, 4>, hg::GroupNorm<groups, 4>>;

void run(const Field<3>& image) {
  hg::Trainer trainer(Model{}, hg::AdamW{}, image.mesh());
  trainer.predict(image);
}
