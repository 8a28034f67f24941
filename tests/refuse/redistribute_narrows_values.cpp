// expect: values_are_narrowed<double, float>
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T, class P>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, P>;
auto whole(const Rows<double, halogen::Shard<0>>& u) {
#ifdef REFUSE
  return halogen::redistribute<Rows<float, halogen::Replicate>>(2 * u);
#else
  return halogen::redistribute<Rows<float, halogen::Replicate>>(halogen::cast<float>(2 * u));
#endif
}
