// A prediction of summands: each rank would compare its share alone.
// expect: why::input_is_partial<0>
#include <halogen/halogen.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, 4>, hg::Mesh<"line">, P>;

void run(const Matrix<hg::Partial<>>& p, const Matrix<hg::Replicate>& label) {
#ifdef REFUSE
  auto loss = hg::mse(p, label);
#else
  const Matrix<hg::Replicate> whole = hg::redistribute<Matrix<hg::Replicate>>(p);
  auto loss = hg::mse(whole, label);
#endif
  static_cast<void>(loss);
}
