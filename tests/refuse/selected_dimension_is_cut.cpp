// select of a dimension that a mesh dimension cuts: its point lies on one rank.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<1>>;

void take(const Plane& u) {
#ifdef REFUSE
  auto part = hg::select<1>(u, 0);
#else
  auto part = hg::select<0>(u, 0);
#endif
  static_cast<void>(part);
}
