// expect: integer_has_no_gradient
#include <halogen/array_language.hpp>
using Rows = halogen::Sharded<halogen::Tensor<double, halogen::dyn>, halogen::Mesh<"rank">, halogen::Shard<0>>;
auto slope(const Rows& u) {
#ifdef REFUSE
  return halogen::value_and_grad([](auto v) { return halogen::argmax(v); })(u);
#else  // an index inside is a number like any other
  return halogen::value_and_grad([](auto v) { return halogen::sum(v * halogen::argmax(v)); })(u);
#endif
}
