// A field of summands as the third operand of a function.
// expect: why::input_is_partial<0>
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void run(const Matrix<hg::Partial<>>& p, const Matrix<hg::Replicate>& w) {
#ifdef REFUSE
  auto chosen = hg::where(w > 0.0f, w, p);
#else
  auto chosen = hg::where(w > 0.0f, w, hg::redistribute<Matrix<hg::Replicate>>(p));
#endif
  static_cast<void>(chosen);
}
