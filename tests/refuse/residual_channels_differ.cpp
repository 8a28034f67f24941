// x + f(x) where f makes other channels: by infer.
// expect: why::channels_differ<0, 3, 4,
// expect: Residual<
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int channels = 4;
#else
constexpr int channels = 3;
#endif
using Model = hg::Residual<hg::Conv2d<3, channels>>;

void run(const hg::Parameters<Model, float>& parameters, const Field<3>& image) { hg::infer(parameters, image); }
