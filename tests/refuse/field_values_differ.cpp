// Images of float16, which a network has no range for, in the place of bfloat16: by Trainer::step.
// expect: why::field_values_differ<float, halogen::float16>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <class T>
using Field = hg::Sharded<hg::Tensor<T, hg::dyn, 1, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

#ifdef REFUSE
using Value = hg::float16;
#else
using Value = hg::bfloat16;
#endif

void run(const Field<Value>& image, const Field<float>& label) {
  hg::Trainer trainer(hg::Conv2d<1, 1>{}, hg::AdamW{}, image.mesh());
  trainer.step(hg::mse, image, label);
}
