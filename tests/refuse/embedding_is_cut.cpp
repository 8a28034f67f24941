// Attention needs each query, key and value whole.
// expect: why::embedding_is_cut<1>
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"data", "model">;
template <class P>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, 64>, Grid, hg::Shard<0>, P>;

void run(const Field<hg::Shard<3>>& embedding, const Field<hg::Shard<1>>& heads) {
#ifdef REFUSE
  auto y = hg::scaled_dot_product_attention(embedding, embedding, embedding);
#else
  auto y = hg::scaled_dot_product_attention(heads, heads, heads);
#endif
  static_cast<void>(y), static_cast<void>(embedding);
}
