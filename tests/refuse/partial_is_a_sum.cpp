// Summands are added by the transport, which knows float, double, int and int64: no 2-byte Partial field is
// redistributed. Cut or replicated it is, as any type.
// expect: why::partial_is_a_sum<0, -1>
#include <cstdint>
#include <halogen/halo/redistribute.hpp>

namespace hg = halogen;

using Grid = hg::Mesh<"line">;
template <class T, class P>
using Plane = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, Grid, P>;

void gather(const Plane<std::int16_t, hg::Partial<>>& sum, const Plane<std::int16_t, hg::Shard<0>>& rows,
            const Plane<float, hg::Partial<>>& float_sum) {
#ifdef REFUSE
  auto whole = hg::redistribute<Plane<std::int16_t, hg::Replicate>>(sum);
#else
  auto whole = hg::redistribute<Plane<std::int16_t, hg::Replicate>>(rows);
  auto added = hg::redistribute<Plane<float, hg::Replicate>>(float_sum);
  static_cast<void>(sum);
  static_cast<void>(added);
#endif
  static_cast<void>(whole);
}
