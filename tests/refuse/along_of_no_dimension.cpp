// A vector along a dimension that its partner does not have.
// expect: why::no_such_dimension<2, 2>
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Vector = hg::Sharded<hg::Tensor<float, hg::dyn>, Line, hg::Replicate>;

void scale(const Plane& u, const Vector& v) {
#ifdef REFUSE
  Plane scaled = u * hg::along<2>(v);
#else
  Plane scaled = u * hg::along<1>(v);
#endif
}
