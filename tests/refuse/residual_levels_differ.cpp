// x + f(x) where f strides: by infer.
// expect: why::levels_differ<0, 0, 1,
// expect: Residual<
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int stride = 2;
#else
constexpr int stride = 1;
#endif
using Model = hg::Residual<hg::Conv2d<3, 3, hg::Stride<stride>>>;

void run(const hg::Parameters<Model, float>& parameters, const Field<3>& image) { hg::infer(parameters, image); }
