// program: volumes
// optimise: 1
// reads: convolutions
// Networks on volumes: convolutions, pools, norms, upsampling, concatenations in depth, height and width.
#include "halogen/layers/activations/silu.hpp"
#include "halogen/layers/activations/softmax.hpp"
#include "support/composition.hpp"
#include "support/convolutions.hpp"

namespace test_compositions3d {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Zero, hg::Periodic>;
template <int In, int Out, class... Options>
using Conv = hg::Conv3d<In, Out, hg::Kernel<3>, hg::Padding<1>, Options...>;
using Up = hg::UpsampleToSkip<hg::Nearest>;

template <class Model, int In, int Out, bool Bitwise>
void check(support::Extents<support::VolumeMesh> extents = support::usual_extents<support::VolumeMesh>()) {
  support::check_composition<Model, In, Out, Bitwise, support::VolumeMesh>(extents);
}

/// The same with another boundary in each dimension.
template <class Depth, class Height, class Width>
using Edges = Conv<2, 3, hg::Boundary<Depth, Height, Width>>;

/// Kernels of each their own extent, even ones, dilations, no bias.
using Windows =
    hg::Sequential<hg::Conv3d<2, 5, hg::Kernel<3, 1, 5>, hg::Padding<1, 0, 2>, hg::Bias<false>>, hg::ReLU,
                   hg::Conv3d<5, 2, hg::Kernel<5, 3, 3>, hg::Dilation<1, 2, 1>, hg::Padding<2, 2, 1>, Globe>>;

/// Read raw and through ReLU, beside the input.
struct RawAndRelu {
  Conv<2, 3, Globe> first;
  Conv<6, 2, hg::Boundary<hg::Periodic, hg::Zero, hg::Zero>> second;
  hg::ReLU relu;
  template <class X>
  constexpr X forward(X x) const {
    const X raw = first(x);
    return hg::concat(second(hg::concat(relu(raw), raw)), hg::concat(x, relu(raw)));
  }
};

using Strided = hg::Sequential<
    hg::SkipConcat<hg::Sequential<hg::Conv3d<2, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, hg::ReLU, Up>>,
    hg::SkipConcat<hg::Sequential<hg::MaxPool3d<3, hg::Stride<2, 2, 1>>, hg::Conv3d<5, 2>, Up>>>;

using Overlaps = hg::SkipConcat<hg::Sequential<Conv<1, 2>, hg::MaxPool3d<3, hg::Stride<1>>, hg::ReLU, Up>>;

/// A norm of the input, of a convolution, of a pool, of what came up again.
using Norms = hg::Sequential<hg::GroupNorm<1, 2>, Conv<2, 4, Globe>, hg::GroupNorm<2, 4>, hg::ReLU,
                             hg::SkipConcat<hg::Sequential<hg::MaxPool3d<2>, hg::GroupNorm<4, 4>, Conv<4, 2>, hg::ReLU,
                                                           Up, hg::GroupNorm<2, 2>>>,
                             Conv<6, 2>>;

/// Enough channels for tiles (layers/convolution/winograd_windows.hpp), forward and backward; a window's planes count
/// as channels.
using Tiles = hg::Sequential<Conv<3, 8>, hg::ReLU,
                             hg::Conv3d<8, 9, hg::Kernel<2, 3, 3>, hg::Stride<2, 1, 1>, hg::Padding<1, 1, 1>, Globe>,
                             hg::ReLU, hg::Conv3d<9, 3, hg::Kernel<3>, hg::Padding<1>>>;

template <int In, int Out, class... Options>
using Linear = Conv<In, Out, hg::Bias<false>, Options...>;
using LinearModel = hg::Sequential<Linear<2, 3, Globe>, hg::SkipConcat<hg::Sequential<Linear<3, 2, hg::Stride<2>>, Up>>,
                                   Linear<5, 2, hg::Boundary<hg::Periodic, hg::Periodic, hg::Zero>>>;

/// Sums, softmax over the channels, an activation with a derivative of its own.
using Sums = hg::Sequential<hg::Residual<hg::Sequential<Conv<2, 4, Globe>, hg::GroupNorm<2, 4>, hg::SiLU, Conv<4, 2>>>,
                            hg::ReLU, hg::Residual<hg::Sequential<Conv<2, 2>, hg::Softmax>>>;

}  // namespace

TEST_CASE("sums and softmax") { check<Sums, 2, 2, false>(); }
TEST_CASE("zero or periodic in depth, height, width") {
  using Z = hg::Zero;
  using P = hg::Periodic;
  check<Edges<Z, Z, Z>, 2, 3, true>({2, 7, 8, 9});
  check<Edges<P, Z, Z>, 2, 3, true>({2, 7, 8, 9});
  check<Edges<Z, P, Z>, 2, 3, true>({1, 7, 8, 9});
  check<Edges<P, P, P>, 2, 3, true>({3, 7, 8, 9});
}
TEST_CASE("windows of different extents, dilations") { check<Windows, 2, 2, true>(); }
TEST_CASE("a convolution read raw and through ReLU, a concatenation as the output") { check<RawAndRelu, 2, 7, true>(); }
TEST_CASE("tiles") {
  check<hg::SkipConcat<hg::Sequential<Tiles, Up>>, 3, 6, true>({1, 12, 11, 18});
  check<Conv<8, 8, hg::Boundary<hg::Periodic, hg::Zero, hg::Periodic>>, 8, 8, true>({2, 6, 12, 11});
}
TEST_CASE("strides, and a pool over what came up again") { check<Strided, 2, 7, true>({1, 15, 16, 18}); }
TEST_CASE("overlapping windows of a pool") { check<Overlaps, 1, 3, true>({1, 12, 11, 18}); }
TEST_CASE("norms and ReLU") { check<Norms, 2, 2, false>({2, 12, 12, 14}); }

TEST_CASE("adjoint identity of a linear model: <f(x), y> = <x, vjp(y)>") {
  const auto extents = support::usual_extents<support::VolumeMesh>();
  const auto input = support::numbers<double>(2 * support::points_of(extents), 2);
  const auto parameters = support::numbers<double>(hg::Parameters<LinearModel, double>::count, 1);
  for (const auto& mesh : support::volume_meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto result = support::run_composition<LinearModel, 2, 2>(mesh, extents, parameters, input);
    CHECK(std::abs(result.loss) > 1e-6);
    CHECK(std::abs(support::dot(input, result.input_gradient) - result.loss) < 1e-12 * std::abs(result.loss));
  }
}

}  // namespace test_compositions3d
