// An expression assigned to a field of other placement: a transposed field lies otherwise, and nothing moves unasked.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Columns = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<1>>;

void turn(Rows& target, const Rows& u) {
#ifdef REFUSE
  target = hg::transpose<0, 1>(u);
#else
  target = hg::redistribute<Rows>(hg::transpose<0, 1>(u));
#endif
}
