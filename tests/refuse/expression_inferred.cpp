// A Network that keeps its plan is given an expression as its image.
// expect: why::expression_is_no_field
// expect: write Image v = u + 1; and give v
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Image =
    hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
using Net = hg::Conv2d<1, 1>;

Image run(hg::Network<Net, float>& network, const hg::Parameters<Net, float>& parameters, const Image& u) {
#ifdef REFUSE
  return network.infer(parameters, u * 2.0f);
#else
  const Image image = u * 2.0f;
  return network.infer(parameters, image);
#endif
}
