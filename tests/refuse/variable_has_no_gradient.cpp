// expect: why::variable_has_no_gradient<1>
#include <halogen/array_language.hpp>
using Grid = hg::Mesh<"height">;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>>;
void step(const Field& u, const Field& v) {
#ifdef REFUSE
  auto all = hg::value_and_grad([](auto x, auto y) { return hg::sum(x * hg::detach(hg::stored(2.0 * y))); })(u, v);
#else
  auto all = hg::value_and_grad([](auto x, auto y) { return hg::sum(x * hg::stored(2.0 * y)); })(u, v);
#endif
  static_cast<void>(all);
}
