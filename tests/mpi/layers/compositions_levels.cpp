// program: compositions
// Unusual ways down and up again: upsampling upon upsampling, strides instead of pools, pools with overlaps; and the
// adjoint identity of a linear model.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_compositions_levels {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Up = hg::UpsampleToSkip<hg::Nearest>;

/// Two levels up in one go: what is looked up is itself looked up.
using UpUp =
    hg::Sequential<Conv<1, 2>,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Up>>,
                                                 hg::ReLU, Up>>>;

/// Strided convolutions go down, a pool with overlaps goes over a concatenation with what came up again.
using Strided = hg::Sequential<
    hg::SkipConcat<hg::Sequential<hg::Conv2d<2, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, hg::ReLU, Up>>,
    hg::SkipConcat<hg::Sequential<hg::MaxPool2d<3, hg::Stride<2>>, Conv<5, 2>, Up>>>;

/// A pool of stride 1: an input is in nine windows, of which any may have chosen it.
using Overlaps = hg::SkipConcat<hg::Sequential<Conv<2, 2>, hg::MaxPool2d<3, hg::Stride<1>>, hg::ReLU, Up>>;

/// Patches that lie across the pieces of most cuts. A model of one's own gives the output the cuts of the label, too.
using Patch = hg::Conv2d<2, 4, hg::Kernel<4>, hg::Stride<4>>;
using Recover = hg::ConvTranspose2d<4, 1, hg::Kernel<4>, hg::Stride<4>, hg::OutputToSkip>;
using Patches = hg::SameExtents<hg::Sequential<Patch, hg::GELU, Recover>>;
struct OwnPatches : hg::Module<OwnPatches> {
  constexpr hg::Traced forward(hg::Traced x) const {
    return hg::Conv2d<1, 1>{}(hg::output_to(x, Recover{}, hg::GELU{}(Patch{}(x))));
  }
};

/// No ReLU, no pool, no bias: a linear map.
template <int In, int Out, class... Options>
using Linear = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>, Options...>;
using LinearModel = hg::Sequential<Linear<2, 3, Globe>, hg::SkipConcat<hg::Sequential<Linear<3, 2, hg::Stride<2>>, Up>>,
                                   Linear<5, 2, Globe>>;

}  // namespace

TEST_CASE("an upsampling of an upsampling") { support::check_composition<UpUp, 1, 6, true>({1, 44, 45}); }
TEST_CASE("strides, and a pool over what came up again") { support::check_composition<Strided, 2, 7, true>(); }
TEST_CASE("overlapping windows of a pool") { support::check_composition<Overlaps, 2, 4, true>(); }

TEST_CASE("patches return to the input's points") {
  support::check_composition<Patches, 2, 1, true>({1, 41, 46});
  support::check_composition<OwnPatches, 2, 1, true>({2, 40, 44});
}

TEST_CASE("adjoint identity of a linear model: <f(x), y> = <x, vjp(y)>") {
  const auto extents = support::usual_extents<support::Mesh>();
  const auto input = support::numbers<double>(2 * support::points_of(extents), 2);
  const auto parameters = support::numbers<double>(hg::Parameters<LinearModel, double>::count, 1);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto result = support::run_composition<LinearModel, 2, 2>(mesh, extents, parameters, input);
    CHECK(std::abs(result.loss) > 1e-6);
    CHECK(std::abs(support::dot(input, result.input_gradient) - result.loss) < 1e-12 * std::abs(result.loss));
  }
}

}  // namespace test_compositions_levels
