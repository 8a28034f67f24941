// Three heads of eight channels: by infer.
// expect: why::groups_do_not_divide<1, 3, 8,
// expect: NeighborhoodAttention2d<8, 3
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int heads = 3;
#else
constexpr int heads = 4;
#endif
using Model = hg::NeighborhoodAttention2d<8, heads, hg::Kernel<7>>;

void run(const hg::Parameters<Model, float>& parameters, const Field<8>& image) { hg::infer(parameters, image); }
