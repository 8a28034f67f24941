// The device parts of the convolutions, run by this machine's threads, against convolutions written out here: tensor
// core tiles with channels that fill none of them, windows whose weights do not fit scratch at once, points a lane,
// windows that do not fit at all; in double, in float by three products and by one, and of fields of bfloat16. Results
// are the same bits on any mesh.
#include <doctest/doctest.h>

#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/plain_convolution.hpp"

namespace {

using support::numbers;
using support::PlainConvolution;
using support::relative_error;

template <class T>
std::vector<T> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}
template <class T = float>
std::vector<double> rounded(const std::vector<double>& values) {
  return support::as<double>(support::as<T>(support::as<float>(values)));
}

/// The largest error of output and gradients.
template <class T>
double error(support::Result<T> result, const support::Result<double>& expected) {
  const auto count = static_cast<T>(expected.output.size());
  for (T& g : result.input_gradient) g *= count;
  for (T& g : result.parameter_gradient) g *= count;
  return std::max({relative_error(result.output, expected.output),
                   relative_error(result.input_gradient, expected.input_gradient),
                   relative_error(result.parameter_gradient, expected.parameter_gradient)});
}

/// `multiplies`: some of its kernels use the tensor cores.
template <class Layer>
void check(const PlainConvolution& plain, bool multiplies) {
  constexpr int in = Layer::in, out = Layer::out;
  REQUIRE(plain.in == in);
  REQUIRE(plain.out == out);
  const auto parameters = numbers<double>(plain.weights() + out, 1), x = numbers<double>(plain.inputs(), 2);
  const auto cotangent = numbers<double>(plain.outputs(), 3);
  const auto expected = plain.run(parameters, x, cotangent);
  const auto expected_single = plain.run(rounded(parameters), rounded(x), rounded(cotangent));
  const auto run = [&]<class T>(const auto& mesh, T) {
    return support::train_once<typename Layer::type, in, out, support::InnerProduct>(
        mesh, {plain.batch, plain.input[0], plain.input[1]}, narrowed<T>(parameters), narrowed<T>(x),
        {plain.output(0), plain.output(1)}, narrowed<T>(cotangent));
  };
  // Numbers that bfloat16 holds: the output is rounded, and so are the gradients that are read and written.
  const auto held = [](const std::vector<double>& values) { return narrowed<float>(rounded<hg::bfloat16>(values)); };
  const auto expected_half =
      plain.run(rounded<hg::bfloat16>(parameters), rounded<hg::bfloat16>(x), rounded<hg::bfloat16>(cotangent));
  const auto run_half = [&](const auto& mesh) {
    return support::train_once<typename Layer::type, in, out, support::InnerProduct, hg::bfloat16>(
        mesh, {plain.batch, plain.input[0], plain.input[1]}, held(parameters), held(x),
        {plain.output(0), plain.output(1)}, held(cotangent));
  };
  const auto alone = run(support::alone(), float{});
  const auto alone_half = run_half(support::alone());
  CHECK(relative_error(alone_half.output, expected_half.output) < 1.01 / 256);
  CHECK(error(alone_half, expected_half) < 2.0 / 256);
  for (const auto& mesh : support::meshes(static_cast<int>(plain.batch))) {
    CAPTURE(support::text(mesh));
    try {
      CHECK(error(run(mesh, double{}), expected) < 1e-13);
      const auto single = run(mesh, float{});
      CHECK(error(single, expected_single) < 4e-6);
      CHECK(single.output == alone.output);  // to the bit
      CHECK(single.input_gradient == alone.input_gradient);
      const auto half = run_half(mesh);
      CHECK(half.output == alone_half.output);
      CHECK(half.input_gradient == alone_half.input_gradient);
      CHECK(error(half, expected_half) < 2.0 / 256);
      hg::allow_tf32(true);
      const double rough = error(run(mesh, float{}), expected_single);
      hg::allow_tf32(false);
      CHECK(rough < 3e-3);
      CHECK((rough > 2e-5) == multiplies);
    } catch (const hg::CollectiveError& refused) {
      if (!support::leaves_a_piece_empty(refused)) throw;
    }
  }
}

template <int In, int Out, class... Options>
struct Conv {
  using type = hg::Conv2d<In, Out, Options...>;
  static constexpr int in = In, out = Out;
};
template <int In, int Out, class... Options>
struct Transposed {
  using type = hg::ConvTranspose2d<In, Out, Options...>;
  static constexpr int in = In, out = Out;
};
using Width = hg::Boundary<hg::Zero, hg::Periodic>;

}  // namespace

TEST_CASE("channels that fill no tile, fields of several tiles, periodic") {
  check<Conv<17, 35, hg::Kernel<3>, hg::Padding<1>, Width>>(
      {.in = 17, .out = 35, .kernel = {3, 3}, .padding = {1, 1}, .periodic = true, .input = {19, 38}}, true);
  check<Conv<24, 72>>({.in = 24, .out = 72, .batch = 2, .input = {9, 33}}, true);
}
TEST_CASE("strides and dilations") {
  check<Conv<16, 40, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>>(
      {.in = 16, .out = 40, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .input = {23, 37}}, true);
  check<Conv<18, 16, hg::Kernel<3, 2>, hg::Dilation<2, 3>, hg::Padding<2, 1>>>(
      {.in = 18, .out = 16, .kernel = {3, 2}, .padding = {2, 1}, .dilation = {2, 3}, .input = {14, 35}}, true);
}
TEST_CASE("weights that do not fit scratch at once") {
  check<Conv<16, 33, hg::Kernel<7>, hg::Padding<3>>>(
      {.in = 16, .out = 33, .kernel = {7, 7}, .padding = {3, 3}, .input = {12, 36}}, true);
}
TEST_CASE("groups, wide and depthwise") {
  check<Conv<32, 34, hg::Kernel<3>, hg::Padding<1>, hg::Groups<2>>>(
      {.in = 32, .out = 34, .groups = 2, .kernel = {3, 3}, .padding = {1, 1}, .input = {11, 36}}, true);
  check<Conv<6, 6, hg::Kernel<3>, hg::Padding<1>, hg::Groups<6>>>(
      {.in = 6, .out = 6, .groups = 6, .kernel = {3, 3}, .padding = {1, 1}, .batch = 2, .input = {40, 35}}, false);
}
TEST_CASE("transposed, by phases") {
  check<Transposed<20, 16, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>>>({.in = 20,
                                                                           .out = 16,
                                                                           .kernel = {4, 4},
                                                                           .stride = {2, 2},
                                                                           .padding = {1, 1},
                                                                           .transposed = true,
                                                                           .input = {12, 35}},
                                                                          true);
}
TEST_CASE("few channels") {
  check<Conv<3, 9, hg::Kernel<5>, hg::Padding<2>>>(
      {.in = 3, .out = 9, .kernel = {5, 5}, .padding = {2, 2}, .input = {35, 34}}, true);  // its weights' gradient
}
TEST_CASE("a window too wide for scratch") {
  check<Conv<1, 2, hg::Kernel<2>, hg::Dilation<110>, hg::Padding<55>>>(
      {.in = 1, .out = 2, .kernel = {2, 2}, .padding = {55, 55}, .dilation = {110, 110}, .input = {60, 61}}, false);
}
