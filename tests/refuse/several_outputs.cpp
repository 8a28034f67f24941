// Weights for one of a network's two outputs, and an expression of both at once.
// expect: outputs_differ<2, 1>
// expect: why::several_outputs<2>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;

struct Two : hg::Module<Two> {
  constexpr auto forward(hg::Traced x) const { return std::array{hg::Conv2d<2, 2>{}(x), x}; }
};

void run(const hg::Parameters<Two, float>& parameters, const Field<2>& x, const Field<1>& weight) {
#ifdef REFUSE
  hg::Trainer(Two{}, hg::AdamW{}, x.mesh()).step(hg::mse, x, hg::Labels{x, x}, hg::Weights{weight});
  hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(x) - x)); })(parameters);
#else
  hg::Trainer(Two{}, hg::AdamW{}, x.mesh()).step(hg::mse, x, hg::Labels{x, x}, hg::Weights{weight, weight});
  hg::value_and_grad([&](auto net) {
    const auto [y, same] = net(x);
    return hg::mean(hg::square(y - same));
  })(parameters);
#endif
}
