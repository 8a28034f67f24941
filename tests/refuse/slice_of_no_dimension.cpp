// A slice of a dimension that the field does not have.
// expect: why::no_such_dimension<2, 2>
#include <halogen/array_language.hpp>

using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

void take(const Plane& u) {
#ifdef REFUSE
  auto part = hg::slice<2>(u, 0, 1);
#else
  auto part = hg::slice<1>(u, 0, 1);
#endif
  static_cast<void>(part);
}
