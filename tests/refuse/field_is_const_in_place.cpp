// The points of a const field are not written: by +=.
// expect: why::field_is_const
#include <halogen/array_language.hpp>

using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<0>>;

#ifdef REFUSE
using Target = const Rows;
#else
using Target = Rows;
#endif

void add(Target& target, const Rows& u) { target += 2.0f * u; }
