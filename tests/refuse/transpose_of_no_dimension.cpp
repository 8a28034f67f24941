// A transpose that names a third dimension of two.
// expect: why::no_such_dimension<2, 2>
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

void turn(const Plane& u) {
#ifdef REFUSE
  auto turned = hg::transpose<0, 2>(u);
#else
  auto turned = hg::transpose<0, 1>(u);
#endif
  static_cast<void>(turned);
}
