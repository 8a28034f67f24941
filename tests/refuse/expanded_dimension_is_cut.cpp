// expand of a dimension that a mesh dimension cuts: its point lies on one rank.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<1>>;

void take(const Plane& u) {
#ifdef REFUSE
  auto part = hg::expand<1>(u);
#else
  auto part = hg::expand<0>(u);
#endif
  static_cast<void>(part);
}
