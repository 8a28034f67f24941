// A product that is still to be summed over ranks, as the operand of a stage.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void run(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Shard<0>>& v) {
#ifdef REFUSE
  auto all = hg::stored(hg::matmul(u, v));
#else
  auto all = hg::stored(hg::redistribute<Matrix<hg::Shard<0>>>(hg::matmul(u, v)));
#endif
  static_cast<void>(all);
}
