// A mask whose columns are cut: every rank needs those of all keys.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, 64>, Line, hg::Shard<2>>;
template <class P>
using Mask = hg::Sharded<hg::Tensor<bool, hg::dyn, 1, 1, hg::dyn>, Line, P>;

void run(const Field& query, const Mask<hg::Shard<3>>& is_sea) {
#ifdef REFUSE
  auto y = hg::scaled_dot_product_attention(query, query, query, is_sea);
#else
  auto y = hg::scaled_dot_product_attention(query, query, query, hg::redistribute<Mask<hg::Replicate>>(is_sea));
#endif
  static_cast<void>(y);
}
