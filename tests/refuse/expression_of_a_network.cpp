// A loss of a network whose image is an expression; the array language computes one:
// mean(square(net(u * 2.0f) - label)).
//
// expect: why::expression_is_no_field
// expect: write mean(square(net(u + 1) - label))
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Image =
    hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
using Net = hg::Conv2d<1, 1>;

auto run(const hg::Parameters<Net, float>& parameters, const Image& u, const Image& label) {
#ifdef REFUSE
  return hg::value_and_grad([&](auto net) { return hg::mse(net(u * 2.0f), label); })(parameters);
#else
  const Image image = u * 2.0f;
  return hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); })(parameters);
#endif
}
