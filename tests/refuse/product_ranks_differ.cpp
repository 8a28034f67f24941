// einsum with three letters for an operand of two dimensions.
// expect: why::operands_differ_in_rank<3, 2>
#include <halogen/array_language.hpp>

using Matrix = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Replicate>;

void multiply(const Matrix& u, const Matrix& v) {
#ifdef REFUSE
  auto product = hg::einsum<"nij,jk->ik">(u, v);
#else
  auto product = hg::einsum<"ij,jk->ik">(u, v);
#endif
  static_cast<void>(product);
}
