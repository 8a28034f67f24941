// A convolution against PyTorch's stored tensors, all exact in float: equal to the bit on every mesh.
#pragma once

#include <doctest/doctest.h>

#include "support/reference.hpp"
#include "support/train_once.hpp"

namespace support {

/// Forward in float and double, all gradients in double. In and Out are the layer's channels.
template <class Layer, int In, int Out>
void check_window(const Reference& reference, int number) {
  const std::string name = "case" + std::to_string(number) + ".";
  const auto in = reference.shape(name + "input"), out = reference.shape(name + "output");
  REQUIRE(in[1] == In);
  REQUIRE(out[1] == Out);
  const auto weight_and_bias = [&](const std::string& prefix) {
    std::vector<double> all = reference.values(name + prefix + "weight");
    const std::vector<double> bias = reference.values(name + prefix + "bias");
    all.insert(all.end(), bias.begin(), bias.end());
    return all;
  };
  const std::vector<double> parameters = weight_and_bias(""), parameter_gradient = weight_and_bias("grad_");
  const std::vector<float> narrow(parameters.begin(), parameters.end());
  const double count = static_cast<double>(out[0] * out[1] * out[2] * out[3]);
  CAPTURE(number);
  for (const auto& mesh : meshes(2)) {
    CAPTURE(text(mesh));
    try {
      const auto forward = infer<Layer, In>(mesh, {in[0], in[2], in[3]}, parameters, reference.values(name + "input"));
      CHECK(forward == reference.values(name + "output"));
      const auto in_float =
          infer<Layer, In>(mesh, {in[0], in[2], in[3]}, narrow, reference.values<float>(name + "input"));
      CHECK(in_float == reference.values<float>(name + "output"));
      auto result = train_once<Layer, In, Out, InnerProduct>(mesh, {in[0], in[2], in[3]}, parameters,
                                                             reference.values(name + "input"), {out[2], out[3]},
                                                             reference.values(name + "grad_output"));
      for (double& g : result.input_gradient) g *= count;
      for (double& g : result.parameter_gradient) g *= count;
      CHECK(result.output == reference.values(name + "output"));
      CHECK(relative_error(result.input_gradient, reference.values(name + "grad_input")) < 1e-14);
      CHECK(relative_error(result.parameter_gradient, parameter_gradient) < 1e-14);
    } catch (const hg::CollectiveError& error) {
      if (!leaves_a_piece_empty(error)) throw;
    }
  }
}

}  // namespace support
