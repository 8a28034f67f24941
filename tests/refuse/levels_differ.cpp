// A skip beside what was pooled and never came up again: by value_and_grad.
// expect: why::levels_differ<1, 0, 1,
// expect: SkipConcat<
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Model = hg::SkipConcat<hg::Sequential<hg::Conv2d<3, 3>, hg::MaxPool2d<2>>>;
#else
using Model = hg::SkipConcat<hg::Sequential<hg::Conv2d<3, 3>, hg::MaxPool2d<2>, hg::UpsampleToSkip<hg::Nearest>>>;
#endif

void run(const hg::Parameters<Model, float>& parameters, const Field<3>& image, const Field<6>& label) {
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  step(parameters);
}
