// Keys that are placed otherwise than the queries: nothing moves unasked.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
template <class P>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, 64>, Line, P>;

void run(const Field<hg::Shard<2>>& query, const Field<hg::Replicate>& key) {
#ifdef REFUSE
  auto y = hg::scaled_dot_product_attention(query, key, key);
#else
  auto y = hg::scaled_dot_product_attention(query, hg::redistribute<Field<hg::Shard<2>>>(key), query);
#endif
  static_cast<void>(y);
}
