// A label of other channels than the second output has.
// expect: why::of_output<1, halogen::why::label_channels_differ<1, 2>
#include <halogen/network.hpp>

using Grid = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;

struct Two : hg::Module<Two> {
  constexpr auto forward(hg::Traced x) const { return std::array{hg::Conv2d<2, 1>{}(x), x}; }
};
#ifdef REFUSE
constexpr int channels = 1;
#else
constexpr int channels = 2;
#endif

void run(const Field<2>& x, const Field<1>& y, const Field<channels>& z) {
  hg::Trainer trainer(Two{}, hg::AdamW{}, x.mesh());
  trainer.step(hg::mse, x, hg::Labels{y, z});
}
