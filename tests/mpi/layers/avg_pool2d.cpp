// program: layers
// AvgPool2d: PyTorch's stored tensors, a composition on every mesh.
#include "support/composition.hpp"
#include "support/stored.hpp"

namespace test_avg_pool2d {

namespace {

using Net = hg::Sequential<
    hg::Conv2d<2, 3>,
    hg::SkipConcat<hg::Sequential<hg::AvgPool2d<3, hg::Stride<2>>, hg::ReLU, hg::UpsampleToSkip<hg::Bilinear>>>>;

}  // namespace

TEST_CASE("PyTorch's: whole windows, overlaps, gaps, padding") {
  support::check_stored<hg::AvgPool2d<2>, 2>("avgpool", 0);
  support::check_stored<hg::AvgPool2d<2, hg::Stride<3>>, 1>("avgpool", 3);
  support::check_stored<hg::AvgPool2d<3, hg::Stride<2>, hg::Padding<1>>, 1>("avgpool", 4);
  support::check_stored<hg::AvgPool2d<1, hg::Kernel<3, 2>, hg::Stride<1, 2>, hg::Padding<1, 0>>, 1>("avgpool", 5);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  support::check_stored<hg::AvgPool2d<3, hg::Stride<2>>, 1>("avgpool", 1);
  support::check_stored<hg::AvgPool2d<1, hg::Kernel<3, 2>, hg::Stride<1>>, 1>("avgpool", 2);
}
TEST_CASE("overlapping windows: to the bit") { support::check_composition<Net, 2, 6, true>(); }

}  // namespace test_avg_pool2d
