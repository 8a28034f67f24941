// expect: values_are_narrowed<double, float>
// expect: field = cast<To>(expression)
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, halogen::Shard<0>>;
void control(Rows<float>& u, const Rows<double>& v, Rows<int>& n) {
  u = 2.0 * u / halogen::norm(u) + halogen::pow(u, 0.5);  // numbers are no fields
  u = halogen::cast<float>(u + v);
  u += 0.1;
  n = 0.5 * n;
}
void add(Rows<float>& u, const Rows<double>& v) {
#ifdef REFUSE
  u = u + v;
#else
  u = u + halogen::cast<float>(v);
#endif
}
