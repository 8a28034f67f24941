// A query that is a sum still due.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
template <class P>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, 64>, Line, P>;

void run(const Field<hg::Partial<hg::Sum>>& summands) {
#ifdef REFUSE
  auto y = hg::scaled_dot_product_attention(summands, summands, summands);
#else
  const auto query = hg::redistribute<Field<hg::Shard<2>>>(summands);
  auto y = hg::scaled_dot_product_attention(query, query, query);
#endif
  static_cast<void>(y);
}
