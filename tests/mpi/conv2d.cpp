// Conv2d against PyTorch's stored tensors, on every mesh of the started ranks: any kernel, stride, padding, dilation.
#include <doctest/doctest.h>

#include "support/network.hpp"
#include "support/reference.hpp"

namespace {

using Width = hg::Boundary<hg::Zero, hg::Periodic>;
using support::relative_error;

template <class Layer, int In, int Out>
void check_case(int number, bool differentiable) {
  const support::Reference reference("conv2d");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto in = reference.shape(name + "input"), out = reference.shape(name + "output");
  REQUIRE(in[1] == In);
  REQUIRE(out[1] == Out);
  std::vector<double> parameters = reference.values(name + "weight");
  const std::vector<double> bias = reference.values(name + "bias");
  parameters.insert(parameters.end(), bias.begin(), bias.end());
  std::vector<double> parameter_gradient = reference.values(name + "grad_weight");
  const std::vector<double> bias_gradient = reference.values(name + "grad_bias");
  parameter_gradient.insert(parameter_gradient.end(), bias_gradient.begin(), bias_gradient.end());
  const double count = static_cast<double>(out[0] * out[1] * out[2] * out[3]);
  int ran = 0;
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    CAPTURE(number);
    try {
      // The reference's results are exact in float: a direct kernel meets them to the bit, on any mesh.
      const auto forward =
          support::infer<Layer, In>(mesh, {in[0], in[2], in[3]}, parameters, reference.values(name + "input"));
      CHECK(forward == reference.values(name + "output"));
      const std::vector<float> single(parameters.begin(), parameters.end());
      const auto in_float =
          support::infer<Layer, In>(mesh, {in[0], in[2], in[3]}, single, reference.values<float>(name + "input"));
      CHECK(in_float == reference.values<float>(name + "output"));
      ++ran;
      auto result = support::train_once<Layer, In, Out, support::InnerProduct>(
          mesh, {in[0], in[2], in[3]}, parameters, reference.values(name + "input"), {out[2], out[3]},
          reference.values(name + "grad_output"));
      CHECK(differentiable);
      for (double& g : result.input_gradient) g *= count;
      for (double& g : result.parameter_gradient) g *= count;
      CHECK(result.output == reference.values(name + "output"));
      CHECK(relative_error(result.input_gradient, reference.values(name + "grad_input")) < 1e-14);
      CHECK(relative_error(result.parameter_gradient, parameter_gradient) < 1e-14);
    } catch (const hg::CollectiveError& error) {
      if (support::leaves_a_piece_empty(error)) continue;
      CHECK_FALSE(differentiable);
      CHECK(std::string(error.what()).find("needs extent = stride * outputs") != std::string::npos);
    }
  }
  if (support::world().size() <= 2) CHECK(ran > 0);  // some outputs have only three rows
}

}  // namespace

TEST_CASE("same windows") {
  check_case<hg::Conv2d<3, 4, hg::Kernel<3>, hg::Padding<1>>, 3, 4>(0, true);
  check_case<hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>, Width>, 2, 2>(1, true);
  check_case<hg::Conv2d<5, 3>, 5, 3>(2, true);
}
TEST_CASE("strides") {
  check_case<hg::Conv2d<2, 3, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, 2, 3>(3, true);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, Width>, 1, 2>(4, false);
  check_case<hg::Conv2d<1, 2, hg::Kernel<2>, hg::Stride<2>>, 1, 2>(5, true);
}
TEST_CASE("even kernels") { check_case<hg::Conv2d<2, 1, hg::Kernel<2>, hg::Padding<1>, Width>, 2, 1>(6, false); }
TEST_CASE("wide kernels, dilations, rectangles") {
  check_case<hg::Conv2d<2, 2, hg::Kernel<5>, hg::Stride<3>, hg::Padding<2>>, 2, 2>(7, true);
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Stride<2>, hg::Padding<2>, hg::Dilation<2>, Width>, 1, 2>(8, false);
  check_case<hg::Conv2d<2, 1, hg::Kernel<3, 5>, hg::Padding<1, 2>, Width>, 2, 1>(9, true);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Padding<2>, hg::Dilation<2>>, 1, 2>(10, true);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3, 5>, hg::Stride<3, 2>, hg::Padding<2, 1>, hg::Dilation<1, 2>, Width>, 1, 2>(
      11, false);
}
TEST_CASE("a kernel wider than the field") {
  check_case<hg::Conv2d<1, 2, hg::Kernel<5>, hg::Padding<2>, Width>, 1, 2>(12, true);
}
TEST_CASE("a halo wider than the whole field is refused, alike on all ranks") {
  using Wide =
      hg::Conv2d<1, 1, hg::Kernel<1, 5>, hg::Dilation<1, 2>, hg::Padding<0, 4>, Width>;  // 4 beyond a width of 3
  int refused = 0;
  for (const auto& mesh : support::meshes(1)) {
    try {
      support::infer<Wide, 1>(mesh, {1, 12, 3}, std::vector<double>(6, 1.0), std::vector<double>(36, 1.0));
      FAIL("it ran");
    } catch (const hg::CollectiveError& error) {
      if (support::leaves_a_piece_empty(error)) continue;
      CHECK(std::string(error.what()) ==
            "a periodic halo of 4 points is wider than the whole width of 3 on level 0: use a larger field, a smaller "
            "window, or fewer levels");
      ++refused;
    }
  }
  CHECK(refused > 0);
}
