// flatten of dimensions of which a mesh dimension cuts the second.
// expect: why::flattened_dimension_is_cut<0, 0>
#include <halogen/array_language.hpp>

template <int Cut>
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<Cut>>;

void join(const Plane<0>& u, const Plane<1>& v) {
#ifdef REFUSE
  auto line = hg::flatten<0, 1>(v);
  static_cast<void>(u);
#else
  auto line = hg::flatten<0, 1>(u);
  static_cast<void>(v);
#endif
  static_cast<void>(line);
}
