// expect: values_are_narrowed<double, int>
// expect: cast<To>(
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, halogen::Shard<0>>;
void add(Rows<int>& n, const Rows<double>& v) {
#ifdef REFUSE
  n += halogen::floor(v);
#else
  n += halogen::cast<int>(halogen::floor(v));
#endif
}
