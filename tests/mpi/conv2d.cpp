// program: windows
// Conv2d against PyTorch's stored tensors, on every mesh of the started ranks: any kernel, stride, padding, dilation.
#include <doctest/doctest.h>

#include "support/windows.hpp"

namespace test_conv2d {

namespace {

// For all of this program: other tests' fields are too small to go past the caches.
[[maybe_unused]] const bool rows_of_any_size_stream = (hg::detail::streamed_bytes = 0, true);

using Width = hg::Boundary<hg::Zero, hg::Periodic>;

template <class Layer, int In, int Out>
void check_case(int number) {
  support::check_window<Layer, In, Out>(support::Reference("conv2d"), number);
}

}  // namespace

TEST_CASE("same windows") {
  check_case<hg::Conv2d<3, 4, hg::Kernel<3>, hg::Padding<1>>, 3, 4>(0);
  check_case<hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>, Width>, 2, 2>(1);
  check_case<hg::Conv2d<5, 3>, 5, 3>(2);
}
TEST_CASE("strides") {
  check_case<hg::Conv2d<2, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, 2, 3>(3);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, Width>, 1, 2>(4);
  check_case<hg::Conv2d<1, 2, hg::Kernel<2>, hg::Stride<2>>, 1, 2>(5);
}
TEST_CASE("even kernels") { check_case<hg::Conv2d<2, 1, hg::Kernel<2>, hg::Padding<1>, Width>, 2, 1>(6); }
TEST_CASE("wide kernels, dilations, rectangles") {
  check_case<hg::Conv2d<2, 2, hg::Kernel<5>, hg::Stride<3>, hg::Padding<2>>, 2, 2>(7);
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Stride<2>, hg::Padding<2>, hg::Dilation<2>, Width>, 1, 2>(8);
  check_case<hg::Conv2d<2, 1, hg::Kernel<3, 5>, hg::Padding<1, 2>, Width>, 2, 1>(9);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Padding<2>, hg::Dilation<2>>, 1, 2>(10);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3, 5>, hg::Stride<3, 2>, hg::Padding<2, 1>, hg::Dilation<1, 2>, Width>, 1, 2>(
      11);
}
TEST_CASE("a kernel wider than the field") {
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Padding<2>, Width>, 1, 2>(12);
}
TEST_CASE("a periodic window that never crosses the end needs no images for its gradient") {
  using Inside = hg::Conv2d<2, 2, hg::Kernel<5>, Width>;
  for (const auto& mesh : support::meshes(1)) {
    try {
      const auto got = support::train_once<Inside, 2, 2, support::InnerProduct>(
          mesh, {1, 24, 7}, support::numbers<double>(102, 1), support::numbers<double>(2 * 24 * 7, 2), {20, 3},
          support::numbers<double>(2 * 20 * 3, 3));
      using Plain = hg::Conv2d<2, 2, hg::Kernel<5>>;
      const auto expected = support::train_once<Plain, 2, 2, support::InnerProduct>(
          mesh, {1, 24, 7}, support::numbers<double>(102, 1), support::numbers<double>(2 * 24 * 7, 2), {20, 3},
          support::numbers<double>(2 * 20 * 3, 3));
      CHECK(got.input_gradient == expected.input_gradient);
      CHECK(got.traffic == expected.traffic);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

}  // namespace test_conv2d
