// A product that is still to be summed over ranks, as the operand of a reduction.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void multiply(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v) {
#ifdef REFUSE
  auto sum = hg::sum(hg::matmul(u, v));
#else
  auto sum = hg::sum(hg::redistribute<Matrix<hg::Replicate>>(hg::matmul(u, v)));
#endif
  static_cast<void>(sum);
}
