// A Partial field is a sum that is still due: it is reduced, not redistributed.
// expect: why::partial_is_a_sum<0, -1>
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"line">;
template <class P>
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, P>;

void gather(const Plane<hg::Partial<>>& sum, const Plane<hg::Shard<0>>& rows) {
#ifdef REFUSE
  auto whole = hg::redistribute<Plane<hg::Replicate>>(sum);
#else
  auto whole = hg::redistribute<Plane<hg::Replicate>>(rows);
  static_cast<void>(sum);
#endif
  static_cast<void>(whole);
}
