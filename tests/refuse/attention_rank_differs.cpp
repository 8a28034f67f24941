// Attention of fields without heads.
// expect: why::rank_differs<4, 3>
#include <halogen/array_language.hpp>

using Line = hg::Mesh<"line">;
#ifdef REFUSE
using Rows = hg::Tensor<float, hg::dyn, hg::dyn, 64>;
#else
using Rows = hg::Tensor<float, hg::dyn, 8, hg::dyn, 64>;
#endif
using Field = hg::Sharded<Rows, Line, hg::Shard<1>>;

void run(const Field& query) { static_cast<void>(hg::scaled_dot_product_attention(query, query, query)); }
