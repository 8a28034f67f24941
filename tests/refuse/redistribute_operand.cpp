// Two operands of one expression are placed differently: nothing moves unasked.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"line">;
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>>;
using Columns = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<1>>;

void add(const Rows& a, const Columns& b) {
#ifdef REFUSE
  auto sum = a + b;
#else
  auto sum = a + hg::redistribute<Rows>(b);
#endif
  static_cast<void>(sum);
}
