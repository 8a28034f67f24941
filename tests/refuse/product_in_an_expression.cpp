// A product that is still to be summed over ranks, beside a field.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void multiply(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v, const Matrix<hg::Replicate>& w) {
#ifdef REFUSE
  auto sum = hg::matmul(u, v) * 2.0f + w;
#else
  auto sum = hg::redistribute<Matrix<hg::Replicate>>(hg::matmul(u, v)) * 2.0f + w;
#endif
  static_cast<void>(sum);
}
