// A flip and a roll of a dimension that the field does not have.
// expect: why::no_such_dimension<2, 2>
// expect: why::no_such_dimension<3, 2>
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

void take(const Plane& u) {
#ifdef REFUSE
  auto part = hg::flip<2>(u);
  auto other = hg::roll<3>(u, 1);
#else
  auto part = hg::flip<1>(u);
  auto other = hg::roll<0>(u, 1);
#endif
  static_cast<void>(part);
  static_cast<void>(other);
}
