// program: windows
// reads: convolutions
// Conv2d against PyTorch's stored tensors, on every mesh of the started ranks: any kernel, stride, padding, dilation.
#include <doctest/doctest.h>

#include <cmath>

#include "support/convolutions.hpp"
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

/// A kernel of one point with many channels, which kernels of their own compute on the host: against its formula, by
/// whole numbers. Some blocks of the weight gradient have several tiles, and a tile has more points than one sum.
template <class T, int In, int Out, int Stride = 1, int Padding = 0>
void check_points(double tolerance) {
  using Layer = hg::Conv2d<In, Out, hg::Kernel<1>, hg::Stride<Stride>, hg::Padding<Padding>>;
  constexpr int samples = 2, height = 41, width = 35;
  constexpr int rows = (height + 2 * Padding - 1) / Stride + 1, columns = (width + 2 * Padding - 1) / Stride + 1;
  const auto whole_numbers = [](int count, int stream) {
    std::vector<T> values = support::numbers<T>(static_cast<std::size_t>(count), static_cast<std::uint64_t>(stream));
    for (T& value : values) value = std::floor(9 * value);
    return values;
  };
  const std::vector<T> parameters = whole_numbers(Out * In + Out, 1);
  const std::vector<T> input = whole_numbers(samples * In * height * width, 2);
  const std::vector<T> slope = whole_numbers(samples * Out * rows * columns, 3);
  std::vector<T> output(slope.size()), of_parameters(parameters.size()), of_input(input.size());
  for (int n = 0; n < samples; ++n)
    for (int o = 0; o < Out; ++o)
      for (int y = 0; y < rows; ++y)
        for (int x = 0; x < columns; ++x) {
          const int to = ((n * Out + o) * rows + y) * columns + x;
          output[to] = parameters[Out * In + o];
          of_parameters[Out * In + o] += slope[to];
          const int row = y * Stride - Padding, column = x * Stride - Padding;
          if (row < 0 || row >= height || column < 0 || column >= width) continue;
          for (int c = 0; c < In; ++c) {
            const int from = ((n * In + c) * height + row) * width + column;
            output[to] += parameters[o * In + c] * input[from];
            of_parameters[o * In + c] += slope[to] * input[from];
            of_input[from] += parameters[o * In + c] * slope[to];
          }
        }
  const T count = static_cast<T>(slope.size());
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    try {
      auto got = support::train_once<Layer, In, Out, support::InnerProduct>(mesh, {samples, height, width}, parameters,
                                                                            input, {rows, columns}, slope);
      CHECK(got.output == output);
      for (auto* gradient : {&got.input_gradient, &got.parameter_gradient})
        for (T& g : *gradient) g *= count;
      CHECK(support::relative_error(got.input_gradient, of_input) < tolerance);
      CHECK(support::relative_error(got.parameter_gradient, of_parameters) < tolerance);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

}  // namespace

TEST_CASE("kernels of one point with many channels") {
  check_points<float, 70, 37>(1e-6);
  check_points<float, 17, 130>(1e-6);
  check_points<float, 35, 9, 2>(1e-6);
  check_points<double, 70, 37, 1, 1>(1e-14);
  check_points<double, 19, 12, 3, 2>(1e-14);
}
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
  ONLY_ON_RANKS(1, 2, 4);
  check_case<hg::Conv2d<2, 2, hg::Kernel<5>, hg::Stride<3>, hg::Padding<2>>, 2, 2>(7);
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Stride<2>, hg::Padding<2>, hg::Dilation<2>, Width>, 1, 2>(8);
  check_case<hg::Conv2d<2, 1, hg::Kernel<3, 5>, hg::Padding<1, 2>, Width>, 2, 1>(9);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Padding<2>, hg::Dilation<2>>, 1, 2>(10);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3, 5>, hg::Stride<3, 2>, hg::Padding<2, 1>, hg::Dilation<1, 2>, Width>, 1, 2>(
      11);
}
TEST_CASE("a kernel wider than the field") {
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Padding<2>, Width>, 1, 2>(12);
}
TEST_CASE("a periodic window that never crosses the end needs no images for its gradient") {
  ONLY_ON_RANKS(1, 2, 3, 4);
  using Inside = hg::Conv2d<2, 2, hg::Kernel<5>, Width>;
  for (const auto& mesh : support::meshes(1)) {
    try {
      const auto got = support::train_once<Inside, 2, 2, support::InnerProduct>(
          mesh, {1, 28, 7}, support::numbers<double>(102, 1), support::numbers<double>(2 * 28 * 7, 2), {24, 3},
          support::numbers<double>(2 * 24 * 3, 3));
      using Plain = hg::Conv2d<2, 2, hg::Kernel<5>>;
      const auto expected = support::train_once<Plain, 2, 2, support::InnerProduct>(
          mesh, {1, 28, 7}, support::numbers<double>(102, 1), support::numbers<double>(2 * 28 * 7, 2), {24, 3},
          support::numbers<double>(2 * 24 * 3, 3));
      CHECK(got.input_gradient == expected.input_gradient);
      CHECK(got.traffic == expected.traffic);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

}  // namespace test_conv2d
