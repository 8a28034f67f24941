// A label that every rank holds whole beside an image cut in width: by value_and_grad.
// expect: why::placements_differ<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Width = hg::Replicate;
#else
using Width = hg::Shard<3>;
#endif
using Label = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, Width>;

void run(const hg::Parameters<hg::Conv2d<3, 1>, float>& parameters, const Field<3>& image, const Label& label) {
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  step(parameters);
}
