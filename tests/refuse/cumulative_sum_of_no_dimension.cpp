// A running sum along a dimension that the expression does not have.
// expect: why::no_such_dimension<-1, 2>
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

void add_up(const Plane& u) {
#ifdef REFUSE
  auto sums = hg::cumulative_sum<-1>(2.0f * u);
#else
  auto sums = hg::cumulative_sum<0>(2.0f * u);
#endif
  static_cast<void>(sums);
}
