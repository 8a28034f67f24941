// A label of two channels for a prediction of one: by Trainer::step.
// expect: why::label_channels_differ<2, 1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int channels = 2;
#else
constexpr int channels = 1;
#endif

void run(const Field<3>& image, const Field<channels>& label) {
  hg::Trainer trainer(hg::Conv2d<3, 1>{}, hg::AdamW{}, image.mesh());
  trainer.step(hg::mse, image, label);
}
