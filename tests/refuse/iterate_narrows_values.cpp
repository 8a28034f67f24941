// expect: values_are_narrowed<double, float>
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, halogen::Shard<0>>;
Rows<float> steps(const Rows<float>& u, const Rows<double>& v) {
#ifdef REFUSE
  return halogen::iterate<2>([&](const auto& w) { return halogen::shift<0, 1>(w) + v; }, u);
#else
  return halogen::iterate<2>([&](const auto& w) { return halogen::cast<float>(halogen::shift<0, 1>(w) + v); }, u);
#endif
}
