// A product that is still to be summed over ranks, reduced over one of its dimensions.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void run(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v) {
#ifdef REFUSE
  auto rows = hg::mean<1>(hg::matmul(u, v), hg::keep_dimensions);
#else
  auto rows = hg::mean<1>(hg::redistribute<Matrix<hg::Shard<0>>>(hg::matmul(u, v)), hg::keep_dimensions);
#endif
  static_cast<void>(rows);
}
