// full_tensor of an expression: the tag says that it is no field.
// expect: why::expression_is_no_field
// expect: write Field v = u + 1; full_tensor(v)
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

std::vector<float> run(const Field& u) {
#ifdef REFUSE
  return hg::full_tensor(u + 1.0f);
#else
  const Field v = u + 1.0f;
  return hg::full_tensor(v);
#endif
}
