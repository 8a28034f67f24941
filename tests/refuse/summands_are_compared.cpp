// A product that is still to be summed over ranks, compared with a field.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void run(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v, const Matrix<hg::Replicate>& w) {
#ifdef REFUSE
  auto mask = w > hg::matmul(u, v);
#else
  auto mask = w > hg::redistribute<Matrix<hg::Replicate>>(hg::matmul(u, v));
#endif
  static_cast<void>(mask);
}
