// A user's layer refuses in its own words, whose type stands in the user's file: by infer.
// expect: winds_are_pairs_of_channels<1, 5,
// expect: WindSpeed
// expect: why::path<1>
#include <halogen/halogen.hpp>

#include "../../examples/extending/wind_speed.hpp"

using Grid = hg::Mesh<"data", "height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int components = 5;
#else
constexpr int components = 4;
#endif
using Model = hg::Sequential<hg::Conv2d<3, components>, WindSpeed>;

void run(const hg::Parameters<Model, float>& parameters, const Field& image) { hg::infer(parameters, image); }
