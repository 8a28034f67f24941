// program: windows
// reads: convolutions
// ConvTranspose2d: PyTorch's stored tensors, the adjoint identity beside Conv2d, compositions on every mesh, a U-Net's
// way up to odd extents, and what is refused.
#include "support/composition.hpp"
#include "support/convolutions.hpp"
#include "support/windows.hpp"

namespace test_conv_transpose2d {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;

template <class Layer, int In, int Out>
void check_case(int number) {
  support::check_window<Layer, In, Out>(support::Reference("conv_transpose2d"), number);
}

template <int In, int Out, class... Options>
using Up = hg::ConvTranspose2d<In, Out, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, Options...>;

/// Down by pools to odd extents, up by transposed convolutions that take the skip's extents and cuts.
template <class Inner>
using Level = hg::SkipConcat<
    hg::Sequential<hg::MaxPool2d<2>, Inner,
                   hg::ConvTranspose2d<3, 2, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, hg::OutputToSkip>>>;
using Conv = hg::Conv2d<3, 3, hg::Kernel<3>, hg::Padding<1>, Globe>;
using UNet = hg::Sequential<hg::Conv2d<1, 3>, Level<hg::Sequential<Conv, hg::GroupNorm<1, 3>, hg::ReLU>>,
                            hg::Conv2d<5, 2, hg::Kernel<3>, hg::Padding<1>, Globe>>;

/// Twice up and twice down, periodic, with a norm and groups between; extents return as they came.
using Wide = hg::Sequential<Up<2, 4, Globe>, hg::GroupNorm<2, 4>, hg::ReLU, Up<4, 6, hg::Groups<2>, Globe>,
                            hg::Conv2d<6, 3, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, Globe>, hg::MaxPool2d<2>>;

/// Its rows are outputs of a stride of 2, so that cuts of the stored tensor are not those of the result.
using Bits =
    hg::Sequential<hg::Conv2d<2, 2, hg::Kernel<3>, hg::Stride<3>, hg::Padding<1>>, hg::ReLU,
                   hg::ConvTranspose2d<2, 5, hg::Kernel<5, 3>, hg::Stride<3>, hg::Padding<1, 0>, hg::OutputPadding<0>>,
                   hg::ConvTranspose2d<5, 2, hg::Kernel<3>, hg::Bias<false>>>;

}  // namespace

TEST_CASE("PyTorch's: kernels beside strides, paddings, output paddings, gaps") {
  check_case<hg::ConvTranspose2d<3, 2, hg::Kernel<2>, hg::Stride<2>>, 3, 2>(0);
  check_case<Up<1, 2>, 1, 2>(1);
  check_case<hg::ConvTranspose2d<1, 5, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, hg::OutputPadding<1>>, 1, 5>(2);
  check_case<hg::ConvTranspose2d<3, 2, hg::Kernel<3>, hg::Padding<1>>, 3, 2>(3);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  check_case<hg::ConvTranspose2d<2, 2, hg::Kernel<2, 1>, hg::Stride<3, 2>, hg::OutputPadding<2, 0>>, 2, 2>(4);
}
TEST_CASE("PyTorch's: groups, dilations, growing fields") {
  check_case<Up<3, 3, hg::Groups<3>>, 3, 3>(5);
  check_case<hg::ConvTranspose2d<4, 6, hg::Kernel<3, 2>, hg::Stride<2, 3>, hg::Padding<0, 1>, hg::Dilation<2, 1>,
                                 hg::OutputPadding<0, 2>, hg::Groups<2>>,
             4, 6>(6);
  check_case<hg::ConvTranspose2d<2, 2, hg::Kernel<5>, hg::Groups<2>>, 2, 2>(7);
}

TEST_CASE("a U-Net of transposed convolutions to odd extents") { support::check_composition<UNet, 1, 2>(); }
TEST_CASE("up and down again, periodic, with groups") { support::check_resizing<Wide, 2, 3>({2, 12, 17}, 12, 17); }
TEST_CASE("of what is interpolated as it is read, beyond what its outputs read") {
  using Down = hg::Conv2d<1, 2, hg::Kernel<4>, hg::Stride<4>>;
  using Twice = hg::Upsample<2, hg::Bilinear>;
  using Returns = hg::SkipConcat<
      hg::Sequential<Down, Twice, hg::ConvTranspose2d<2, 2, hg::Kernel<2>, hg::Stride<2>, hg::OutputToSkip>>>;
  support::check_composition<Returns, 1, 3>({1, 16, 40});
  using Padded =
      hg::Sequential<hg::Conv2d<1, 2>, Twice, hg::ConvTranspose2d<2, 2, hg::Kernel<1>, hg::Stride<2>, hg::Padding<1>>>;
  support::check_resizing<Padded, 1, 2>({1, 12, 12}, 45, 45);
}
TEST_CASE("columns without a gradient add nothing to those of weights, though they be NaN") {
  support::check_uncounted<Up<2, 3>, 2, 3>({1, 9, 20}, {10, 11}, {19, 23}, {18, 40});
  support::check_uncounted<hg::ConvTranspose2d<4, 4, hg::Kernel<5>, hg::Padding<2>, hg::Groups<2>>, 4, 4>(
      {1, 9, 20}, {10, 12}, {8, 14}, {9, 20});
}
TEST_CASE("strides of three, to the bit") { support::check_resizing<Bits, 2, 2, true>({2, 23, 31}, 26, 35); }

TEST_CASE("it is the adjoint of the convolution with its weights: <conv(x), y> = <x, transpose(y)>") {
  using Down = hg::Conv2d<3, 2, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, hg::Bias<false>, Globe>;
  using Back = Up<2, 3, hg::Bias<false>, Globe>;
  const auto weights = support::numbers<double>(hg::Parameters<Down, double>::count, 1);  // (2, 3, 4, 4), of both
  const auto x = support::numbers<double>(3 * 24 * 34, 2), y = support::numbers<double>(2 * 12 * 17, 3);
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto down = support::infer<Down, 3>(mesh, {1, 24, 34}, weights, x);
    const auto back = support::infer<Back, 2>(mesh, {1, 12, 17}, weights, y);
    const double a = support::dot(down, y), b = support::dot(x, back);
    CHECK(std::abs(a) > 1);
    CHECK(std::abs(a - b) < 1e-12 * std::abs(a));
  }
}

TEST_CASE("kernel = stride sends nothing forward") {
  using Plain = hg::ConvTranspose2d<1, 1, hg::Kernel<2>, hg::Stride<2>>;
  const auto x = support::numbers<double>(12 * 12, 2);
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto image = hg::distribute_tensor<support::Field<double, 1>>(mesh, {1, 1, 12, 12}, x);
    const auto parameters = hg::initial_parameters<Plain, double>(7);
    const hg::CommStatistics before = hg::comm_stats();
    const auto result = hg::infer(parameters, image);
    CHECK((hg::comm_stats() - before).messages == hg::Tally{});
    CHECK(result.extent(2) == 24);
  }
}

TEST_CASE("a skip's extent that the window cannot make is refused, alike on all ranks") {
  using Net = hg::SkipConcat<
      hg::Sequential<hg::MaxPool2d<3>, hg::ConvTranspose2d<1, 1, hg::Kernel<2>, hg::Stride<2>, hg::OutputToSkip>>>;
  int refused = 0;
  for (const auto& mesh : support::meshes(1)) {
    try {
      support::infer<Net, 1>(mesh, {1, 24, 24}, std::vector<double>(5, 1.0), std::vector<double>(576, 1.0));
      FAIL("it ran");
    } catch (const hg::CollectiveError& error) {
      CHECK(std::string(error.what()) ==
            "layer 1 (conv_transpose2d) makes 16 to 17 of 8 rows, the skip has 24: give it the stride of what led "
            "down");
      ++refused;
    }
  }
  CHECK(refused > 0);
}

}  // namespace test_conv_transpose2d
