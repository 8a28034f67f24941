// An upsampling that stands in no SkipConcat has no extent to return to: by infer.
// expect: why::upsample_without_skip<2,
// expect: UpsampleToSkip<
// expect: why::path<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

using Coarse = hg::Sequential<hg::MaxPool2d<2>, hg::Conv2d<3, 1>, hg::UpsampleToSkip<hg::Nearest>>;
#ifdef REFUSE
using Model = Coarse;
#else
using Model = hg::SkipConcat<Coarse>;
#endif

void run(const hg::Parameters<Model, float>& parameters, const Field<3>& image) { hg::infer(parameters, image); }
