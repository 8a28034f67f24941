// The image has other channels than the first layer takes: by Trainer::predict.
// expect: why::channels_differ<0, 3, 5,
// expect: Conv2d<3, 1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
constexpr int channels = 5;
#else
constexpr int channels = 3;
#endif

void run(const Field<channels>& image) {
  hg::Trainer trainer(hg::Conv2d<3, 1>{}, hg::AdamW{}, image.mesh());
  trainer.predict(image);
}
