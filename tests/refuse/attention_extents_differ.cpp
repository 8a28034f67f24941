// Query and key of different embeddings.
// expect: why::attention_extents_differ<3, 64, 32>
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"sequence">;
template <int E>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, E>, Line, hg::Shard<2>>;

void run(const Field<64>& query, const Field<32>& narrow) {
#ifdef REFUSE
  auto y = hg::scaled_dot_product_attention(query, narrow, query);
#else
  auto y = hg::scaled_dot_product_attention(query, query, narrow);  // values may be of another width
#endif
  static_cast<void>(y), static_cast<void>(narrow);
}
