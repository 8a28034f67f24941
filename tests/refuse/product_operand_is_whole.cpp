// A product whose summed index is cut in one operand and whole in the other.
// expect: why::redistribute_operand<0,
#include <halogen/array_language.hpp>

template <class P>
using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, P>;

void multiply(const Matrix<hg::Shard<1>>& u, const Matrix<hg::Replicate>& whole, const Matrix<hg::Shard<0>>& cut) {
#ifdef REFUSE
  auto product = hg::matmul(u, whole);
  static_cast<void>(cut);
#else
  auto product = hg::matmul(u, cut);
  static_cast<void>(whole);
#endif
  static_cast<void>(product);
}
