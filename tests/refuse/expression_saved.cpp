// An expression is saved beside a field.
// expect: why::expression_is_no_field
// expect: write Field v = u + 1; and NamedField{"v", v}
#include <halogen/array_language.hpp>
#include <halogen/io/fields.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

void run(const Field& u) {
#ifdef REFUSE
  hg::save_fields("u", hg::NamedField{"u", u}, hg::NamedField{"v", u + 1.0f});
#else
  const Field v = u + 1.0f;
  hg::save_fields("u", hg::NamedField{"u", u}, hg::NamedField{"v", v});
#endif
}
