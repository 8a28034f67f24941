// A dry run of a model that does not fit its field: by layout_of, as by Trainer::step.
// expect: why::channels_differ<1, 8, 4,
// expect: Conv2d<8, 1>
#include <halogen/network.hpp>

#ifdef REFUSE
constexpr int second = 8;
#else
constexpr int second = 4;
#endif
using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
using Model = hg::Sequential<hg::Conv2d<3, 4>, hg::Conv2d<second, 1>>;

hg::Layout run() { return hg::layout_of<Field>(Model{}, hg::dry_mesh<Grid>({8, 8}), {1, 3, 1024, 2048}); }
