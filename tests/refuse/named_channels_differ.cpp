// Two containers deep a layer takes other channels: the tag has its type and name, and where it stands.
// expect: why::channels_differ<2, 32, 16,
// expect: Named<
// expect: Conv2d<32, 1>
// expect: why::path<1, 0>
#include <halogen/halogen.hpp>

using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, hg::Mesh<"height">, hg::Shard<2>>;
#ifdef REFUSE
using Head = hg::Named<"head", hg::Conv2d<32, 1>>;
#else
using Head = hg::Named<"head", hg::Conv2d<16, 1>>;
#endif
using Body = hg::Sequential<hg::Conv2d<3, 16, hg::Kernel<3>, hg::Padding<1>>, hg::ReLU>;
using Model = hg::Sequential<Body, hg::Sequential<Head>>;

void run(const hg::Parameters<Model, float>& parameters, const Field& image) { hg::infer(parameters, image); }
