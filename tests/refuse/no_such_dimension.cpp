// A shift along a dimension that the field does not have.
// expect: why::no_such_dimension<2, 2>
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

void step(const Plane& u) {
#ifdef REFUSE
  auto moved = hg::shift<2, 1>(u);
#else
  auto moved = hg::shift<1, 1>(u);
#endif
  static_cast<void>(moved);
}
