// A product that is still to be summed over ranks, as the second of two operands.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void multiply(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v, const Matrix<hg::Replicate>& w) {
#ifdef REFUSE
  auto sum = hg::maximum(w, hg::matmul(u, v));
#else
  auto sum = hg::maximum(w, hg::redistribute<Matrix<hg::Replicate>>(hg::matmul(u, v)));
#endif
  static_cast<void>(sum);
}
