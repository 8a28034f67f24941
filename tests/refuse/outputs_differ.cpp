// Two labels for a model that returns three values, and indices where a loss compares numbers.
// expect: outputs_differ<3, 2>
// expect: field_values_differ<float, int>
//
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

struct Three : hg::Module<Three> {
  constexpr auto forward(hg::Traced x) const {
    return std::tuple{hg::Conv2d<2, 2>{}(x), hg::Conv2d<2, 2>{}(x), hg::Conv2d<2, 1>{}(x)};
  }
};

void run(const Field<float, 2>& x, const Field<float, 1>& y, const Field<int, 1>& kind) {
  hg::Trainer trainer(Three{}, hg::AdamW{}, x.mesh());
  trainer.step(hg::Losses{hg::mse, hg::cross_entropy, hg::l1}, x, hg::Labels{x, kind, y});
#ifdef REFUSE
  trainer.step(hg::mse, x, hg::Labels{x, y});
  trainer.step(hg::mse, x, hg::Labels{x, x, kind});
#endif
}
