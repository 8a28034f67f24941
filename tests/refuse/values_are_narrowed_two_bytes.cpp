// A field of floats assigned to one of two bytes.
// expect: values_are_narrowed<float,
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, halogen::Shard<0>>;
void control(Rows<halogen::bfloat16>& h, Rows<float>& u, const Rows<halogen::bfloat16>& g) {
  h = 0.5f * h + g * halogen::norm(h) + halogen::pow(g, 2.0);  // numbers are no fields
  h -= 0.1f * g;
  u = h + g;
  h = halogen::cast<halogen::bfloat16>(u + h);
}
void add(Rows<halogen::bfloat16>& h, const Rows<float>& u) {
#ifdef REFUSE
  h = h + u;
#else
  h = h + halogen::cast<halogen::bfloat16>(u);
#endif
}
