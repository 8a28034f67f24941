// A layer within the model takes other channels than it gets: by Trainer::step.
// expect: why::channels_differ<2, 8, 4,
// expect: Conv2d<8, 1>
// expect: why::path<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int second = 8;
#else
constexpr int second = 4;
#endif
using Model = hg::Sequential<hg::Conv2d<3, 4, hg::Kernel<3>, hg::Padding<1>>, hg::ReLU, hg::Conv2d<second, 1>>;

void run(const Field<3>& image, const Field<1>& label) {
  hg::Trainer trainer(Model{}, hg::AdamW{}, image.mesh());
  trainer.step(hg::mse, image, label);
}
