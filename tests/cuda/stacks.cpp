// Kernels whose stacks are looked at (tests/house/compile.py stacks): what readers apply costs no copy of arguments.
#include "instantiate.hpp"

namespace instantiate {

template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Net = hg::Sequential<Conv<16, 16>, hg::GroupNorm<4, 16>, hg::ReLU, hg::MaxPool2d<2>, Conv<16, 16>, hg::GELU,
                           hg::Upsample<2, hg::Nearest>, Conv<16, 4>>;

void train_for_stacks(const hg::Environment& env) { train_one_step<float, Net, 16, 4>(env, 36, 70, 36, 70); }

}  // namespace instantiate
