// A field of 64-bit integers assigned to one of 32 bits.
// expect: values_are_narrowed<long
#include <cstdint>
#include <halogen/array_language.hpp>
using Grid = halogen::Mesh<"rank">;
template <class T>
using Rows = halogen::Sharded<halogen::Tensor<T, halogen::dyn>, Grid, halogen::Shard<0>>;
using Mask = Rows<bool>;
void control(Rows<std::int32_t>& n, const Rows<std::int64_t>& wide, Rows<std::int64_t>& sums, Mask& mask) {
  n = n + std::int64_t{1};  // numbers are no fields
  n = n - halogen::sum(n) + halogen::cast<int>(wide);
  n = halogen::cast<int>(halogen::global_index<0>(n));
  n = halogen::where(wide > 2, n, -n);
  sums = halogen::cumulative_sum<0>(n) + wide;
  mask = wide > n;
}
void add(Rows<std::int32_t>& n, const Rows<std::int64_t>& wide) {
#ifdef REFUSE
  n = n + wide;
#else
  n = n + halogen::cast<std::int32_t>(wide);
#endif
}
