// program: windows
// reads: convolutions
// Conv2d with Groups: PyTorch's stored tensors, compositions on every mesh, gradients of sources that straddle groups.
#include "support/composition.hpp"
#include "support/convolutions.hpp"
#include "support/windows.hpp"

namespace test_grouped_conv2d {

namespace {

using Width = hg::Boundary<hg::Zero, hg::Periodic>;

template <class Layer, int In, int Out>
void check_case(int number) {
  support::check_window<Layer, In, Out>(support::Reference("grouped_conv2d"), number);
}

template <int Channels, class... Options>
using Depthwise = hg::Conv2d<Channels, Channels, hg::Kernel<3>, hg::Padding<1>, hg::Groups<Channels>, Options...>;

/// ConvNeXt's shape: depthwise, norm, pointwise; windows wider than pieces.
using Separable = hg::Sequential<hg::Conv2d<2, 4>, Depthwise<4, Width>, hg::GroupNorm<2, 4>, hg::ReLU, hg::Conv2d<4, 3>,
                                 hg::Conv2d<3, 3, hg::Kernel<7>, hg::Padding<3>, hg::Groups<3>, Width>>;

/// Six channels in three groups, read as 1 + 2 + 3: no source is whole groups. The middle one is a norm's, the last
/// one is looked up from a coarser level.
struct Straddling : hg::Module<Straddling> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto fine = hg::Conv2d<1, 2, hg::Kernel<3>, hg::Padding<1>>{}(x);
    const auto middle = hg::ReLU{}(hg::GroupNorm<1, 2>{}(fine));
    x = hg::concat(x, middle);
    return hg::SkipConcat<hg::Sequential<hg::Conv2d<3, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, hg::Groups<3>>,
                                         hg::UpsampleToSkip<hg::Nearest>>>{}(x);
  }
};
using Straddles =
    hg::Sequential<Straddling, hg::Conv2d<6, 9, hg::Kernel<3>, hg::Padding<1>, hg::Groups<3>, Width>, hg::ReLU>;

/// Without norms: the same bits in float on any mesh.
using Plain = hg::Sequential<Depthwise<2>, hg::ReLU, hg::Conv2d<2, 20, hg::Groups<2>>,
                             hg::Conv2d<20, 4, hg::Kernel<3, 5>, hg::Padding<1, 2>, hg::Groups<2>, Width>>;

}  // namespace

TEST_CASE("PyTorch's groups: depthwise, several outputs a group, several inputs a group, wide groups") {
  check_case<Depthwise<3, Width>, 3, 3>(0);
  check_case<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, hg::Groups<2>>, 2, 4>(1);
  check_case<hg::Conv2d<4, 6, hg::Kernel<3>, hg::Padding<1>, hg::Groups<2>>, 4, 6>(2);
  check_case<hg::Conv2d<10, 10, hg::Groups<2>>, 10, 10>(3);
}
TEST_CASE("PyTorch's groups: strides, dilations, even and wide kernels") {
  check_case<hg::Conv2d<4, 2, hg::Kernel<5, 3>, hg::Stride<3, 2>, hg::Padding<2, 1>, hg::Dilation<1, 2>, hg::Groups<2>>,
             4, 2>(4);
  check_case<hg::Conv2d<2, 2, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, hg::Groups<2>, Width>, 2, 2>(5);
  check_case<hg::Conv2d<2, 2, hg::Kernel<5>, hg::Padding<4>, hg::Dilation<2>, hg::Groups<2>, Width>, 2, 2>(6);
}

TEST_CASE("depthwise with norms, periodic") { support::check_composition<Separable, 2, 3>(); }
TEST_CASE("sources that straddle groups") { support::check_composition<Straddles, 1, 9>(); }
TEST_CASE("groups without norms: to the bit") { support::check_composition<Plain, 2, 4, true>({3, 11, 37}); }

TEST_CASE("columns without a gradient add nothing to those of weights, though they be NaN") {
  support::check_uncounted<Depthwise<3>, 3, 3>({1, 9, 40}, {20, 22}, {19, 23}, {9, 40});
  support::check_uncounted<Plain, 2, 4>({1, 9, 40}, {20, 21}, {16, 26}, {9, 40});
  using Strided = hg::Conv2d<4, 2, hg::Kernel<5, 3>, hg::Stride<3, 2>, hg::Padding<2, 1>, hg::Groups<2>>;
  support::check_uncounted<Strided, 4, 2>({1, 18, 40}, {21, 22}, {10, 12}, {6, 20});
}

TEST_CASE("a depthwise layer has a weight for each channel, sends what a dense one sends") {
  CHECK(hg::Parameters<Depthwise<8>, float>::count == 8 * 9 + 8);
  CHECK(hg::Parameters<hg::Conv2d<6, 9, hg::Kernel<3>, hg::Groups<3>, hg::Bias<false>>, float>::count == 9 * 2 * 9);
  const hg::index_t height = 24, width = 23;
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto traffic = [&]<class Layer>(const Layer&) {
      const auto input = support::numbers<double>(static_cast<std::size_t>(4 * height * width), 2);
      const auto parameters = support::numbers<double>(hg::Parameters<Layer, double>::count, 1);
      return support::run_composition<Layer, 4, 4>(mesh, {1, height, width}, parameters, input).traffic;
    };
    const auto grouped = traffic(Depthwise<4, Width>{});
    const auto dense = traffic(hg::Conv2d<4, 4, hg::Kernel<3>, hg::Padding<1>, Width>{});
    CHECK(grouped.messages == dense.messages);
    CHECK((grouped.messages.count > 0) == (mesh.size() > 1));
  }
}

}  // namespace test_grouped_conv2d
