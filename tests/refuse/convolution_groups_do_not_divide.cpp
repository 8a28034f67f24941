// Four outputs of a convolution in three groups: by infer.
// expect: why::groups_do_not_divide<0, 3, 4,
// expect: Conv2d<3, 4
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int outputs = 4;
#else
constexpr int outputs = 6;
#endif
using Model = hg::Conv2d<3, outputs, hg::Kernel<3>, hg::Groups<3>>;

void run(const hg::Parameters<Model, float>& parameters, const Field<3>& image) { hg::infer(parameters, image); }
