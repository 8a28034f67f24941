// SameExtents around layers that end on other points than x's.
// expect: why::levels_differ<1, 0, 2,
// expect: SameExtents<
#include <halogen/network.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
#ifdef REFUSE
using Up = hg::Upsample<2, hg::Nearest>;
#else
using Up = hg::UpsampleToSkip<hg::Nearest>;
#endif
using Same = hg::SameExtents<hg::Sequential<hg::MaxPool2d<2>, Up>>;

void run(const hg::Parameters<Same, float>& parameters, const Field& x) { hg::infer(parameters, x); }
