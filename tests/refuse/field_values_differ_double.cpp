// Parameters of double, which have no two-byte fields: by value_and_grad.
// expect: why::field_values_differ<double, halogen::bfloat16>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Model = hg::Conv2d<1, 1>;
template <class T>
using Field = hg::Sharded<hg::Tensor<T, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Value = double;
#else
using Value = float;
#endif

void run(const hg::Parameters<Model, Value>& parameters, const Field<hg::bfloat16>& image, const Field<float>& label) {
  auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  step(parameters);
}
