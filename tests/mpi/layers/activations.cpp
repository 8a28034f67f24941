// compiled: no
// Activation layers: PyTorch's stored tensors, compositions on every mesh, equal to the bit; they send nothing.
// Header-only, since at -O0 a program's own kernels round otherwise than the library's.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_activations {

namespace {

template <class Layer>
void check_case(int number) {
  support::check_stored<Layer, 3, 3>("activations", number, [](const auto& stored, const auto&, const auto& result) {
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-14);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
    CHECK(result.traffic.messages == hg::Tally{});
  });
}

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out, class... Options>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe, Options...>;

/// Behind norms, before windows of any stride: values and gradients enter rows of both kernels.
template <class Activation>
using Behind = hg::Sequential<Conv<2, 8>, hg::GroupNorm<2, 8>, Activation,
                              hg::SkipConcat<hg::Sequential<Conv<8, 8, hg::Stride<2>>, hg::GroupNorm<2, 8>, Activation,
                                                            hg::UpsampleToSkip<hg::Nearest>>>,
                              Conv<16, 4>, Activation>;
/// A sum whose gradient is passed back by who wrote it last; the input's and an interpolation's activation.
template <class Activation>
using Around = hg::Sequential<
    Activation, hg::Residual<hg::Sequential<Conv<2, 2>, Activation, Conv<2, 2>>>, Activation,
    hg::Residual<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 2>, hg::UpsampleToSkip<hg::Bilinear>, Activation>>>;
/// One activation behind another, read raw and through both.
struct Chain {
  Conv<2, 3> first;
  Conv<9, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X raw = first(x), once = hg::Tanh{}(raw);
    return last(hg::concat(hg::concat(raw, once), hg::Sigmoid{}(once)));
  }
};

}  // namespace

TEST_CASE("PyTorch's") {
  check_case<hg::ReLU>(0);
  check_case<hg::LeakyReLU<std::ratio<1, 5>>>(1);
  check_case<hg::ELU<std::ratio<1, 2>>>(2);
  check_case<hg::SiLU>(3);
  check_case<hg::GELU>(4);
  check_case<hg::Tanh>(5);
  check_case<hg::Sigmoid>(6);
}
TEST_CASE("behind norms, before windows") {
  support::check_composition<Behind<hg::GELU>, 2, 4>({2, 24, 22});
  support::check_composition<Behind<hg::ELU<>>, 2, 4>({1, 24, 26});
}
TEST_CASE("in sums, of the image, of what is interpolated: to the bit") {
  support::check_composition<Around<hg::SiLU>, 2, 2, true>();
  support::check_composition<Around<hg::LeakyReLU<>>, 2, 2, true>();
}
TEST_CASE("one behind another") { support::check_composition<Chain, 2, 2, true>(); }
TEST_CASE("no pass and no tensor of their own") {
  using Net = hg::Sequential<Conv<2, 8>, hg::GroupNorm<2, 8>, hg::GELU, Conv<8, 4>>;
  constexpr const hg::Plan& plan = hg::plan_of<Net, 2, hg::PlanKind::inference>;
  static_assert(plan.launches.size() == 2 && plan.tensors.size() == 3);
  CHECK(hg::explain<support::Field<double, 2>>(Net{}, hg::dry_mesh<support::Mesh>({1, 1, 1}), {1, 2, 8, 8})
            .find("gelu(affine0(t1))") != std::string::npos);
}

}  // namespace test_activations
