// A row of all that is broadcast beside a field whose columns another mesh dimension cuts: each has to lie alike.
// expect: why::redistribute_operand<1,
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"height", "width">;
template <class Columns>
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, Columns>;
using Row = hg::Sharded<hg::Tensor<float, 1, hg::dyn>, Grid, hg::Replicate, hg::Shard<1>>;

void add(const Plane<hg::Replicate>& whole, const Plane<hg::Shard<1>>& cut, const Row& row) {
#ifdef REFUSE
  auto sum = row + whole;
  static_cast<void>(cut);
#else
  auto sum = row + cut;
  static_cast<void>(whole);
#endif
  static_cast<void>(sum);
}
