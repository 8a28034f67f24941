// One check of a composition: on every mesh it is what one rank alone computes, whose gradients are those of finite
// differences; a model without norms has the same bits in float on any mesh.
#pragma once

#include <doctest/doctest.h>

#include "support/alone.hpp"

namespace support {

struct Sizes {
  hg::index_t batch = 2, height = 24, width = 23;  // six ranks in a row all have a piece, one level down too
};

/// Forward and backward of the loss <output, random cotangent> / points, for an output of the input's extents.
template <class Model, int In, int Out>
Result<double> run_composition(const hg::DeviceMesh<Mesh>& mesh, Sizes size, const std::vector<double>& parameters,
                               const std::vector<double>& input) {
  const auto points = static_cast<std::size_t>(size.batch * Out * size.height * size.width);
  return train_once<Model, In, Out, InnerProduct>(mesh, {size.batch, size.height, size.width}, parameters, input,
                                                  {size.height, size.width}, numbers<double>(points, 3));
}

/// The same loss's gradient by the parameters alone, as training plans it: without what only the input's needs.
template <class Model, int In, int Out>
std::vector<double> gradient_of_training(const hg::DeviceMesh<Mesh>& mesh, Sizes size,
                                         const std::vector<double>& parameters, const std::vector<double>& input) {
  const auto [n, h, w] = size;
  const auto image = hg::distribute_tensor<Field<double, In>>(mesh, {n, In, h, w}, input);
  const auto label = hg::distribute_tensor<Field<double, Out>>(
      mesh, {n, Out, h, w}, numbers<double>(static_cast<std::size_t>(n * Out * h * w), 3));
  hg::Parameters<Model, double> values;
  values.copy_from_host(parameters);
  auto step = hg::value_and_grad([&](auto net) { return InnerProduct{}(net(image), label); });
  return hg::redistribute<hg::Replicate>(step(values).second).to_host();
}

/// Bitwise: the model has no norms, and inference in float gives the same bits on any mesh.
template <class Model, int In, int Out, bool Bitwise = false>
void check_composition(Sizes size = {}) {
  const std::array<hg::index_t, 3> extents{size.batch, size.height, size.width};
  const auto parameters = numbers<double>(hg::Parameters<Model, double>::count, 1);
  const auto input = numbers<double>(static_cast<std::size_t>(size.batch * In * size.height * size.width), 2);
  const auto single = run_composition<Model, In, Out>(alone(), size, parameters, input);
  CHECK(single.traffic.messages.count == 0);
  CHECK(dot(single.input_gradient, single.input_gradient) > 0);

  if (world().rank() == 0) {  // it would be the same on every rank
    const auto loss_of_parameters = [&](const std::vector<double>& p) {
      return run_composition<Model, In, Out>(alone(), size, p, input).loss;
    };
    const auto loss_of_input = [&](const std::vector<double>& x) {
      return run_composition<Model, In, Out>(alone(), size, parameters, x).loss;
    };
    for (std::uint64_t stream = 10; stream < 12; ++stream) {
      CAPTURE(stream);
      CHECK(slope_error(loss_of_parameters, parameters, single.parameter_gradient,
                        numbers<double>(parameters.size(), stream)) < 1e-6);
      CHECK(slope_error(loss_of_input, input, single.input_gradient, numbers<double>(input.size(), stream)) < 1e-6);
    }
  }

  std::vector<float> narrow_parameters, narrow_input, narrow_output;
  if constexpr (Bitwise) {
    narrow_parameters.assign(parameters.begin(), parameters.end());
    narrow_input.assign(input.begin(), input.end());
    narrow_output = infer<Model, In>(alone(), extents, narrow_parameters, narrow_input);
  }
  for (const auto& mesh : meshes(static_cast<int>(size.batch))) {
    CAPTURE(text(mesh));
    const auto result = run_composition<Model, In, Out>(mesh, size, parameters, input);
    CHECK(relative_error(result.output, single.output) < 1e-12);
    CHECK(relative_error(std::vector<double>{result.loss}, std::vector<double>{single.loss}) < 1e-12);
    CHECK(relative_error(result.input_gradient, single.input_gradient) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, single.parameter_gradient) < 1e-12);
    const auto gradient = gradient_of_training<Model, In, Out>(mesh, size, parameters, input);
    CHECK(relative_error(gradient, single.parameter_gradient) < 1e-12);
    if constexpr (Bitwise) CHECK(infer<Model, In>(mesh, extents, narrow_parameters, narrow_input) == narrow_output);
  }
}

/// The same for outputs of other extents than the input's.
template <class Model, int In, int Out, bool Bitwise = false>
void check_resizing(Sizes size, hg::index_t height, hg::index_t width) {
  const auto parameters = numbers<double>(hg::Parameters<Model, double>::count, 1);
  const auto input = numbers<double>(static_cast<std::size_t>(size.batch * In * size.height * size.width), 2);
  const auto label = numbers<double>(static_cast<std::size_t>(size.batch * Out * height * width), 3);
  const auto run = [&](const auto& mesh, const std::vector<double>& p, const std::vector<double>& x) {
    return train_once<Model, In, Out, InnerProduct>(mesh, {size.batch, size.height, size.width}, p, x, {height, width},
                                                    label);
  };
  const auto single = run(alone(), parameters, input);
  REQUIRE(single.output.size() == label.size());
  if (world().rank() == 0) {
    const auto of_parameters = [&](const auto& p) { return run(alone(), p, input).loss; };
    const auto of_input = [&](const auto& x) { return run(alone(), parameters, x).loss; };
    CHECK(slope_error(of_parameters, parameters, single.parameter_gradient, numbers<double>(parameters.size(), 10)) <
          1e-6);
    CHECK(slope_error(of_input, input, single.input_gradient, numbers<double>(input.size(), 11)) < 1e-6);
  }
  const std::vector<float> narrow(parameters.begin(), parameters.end()), image(input.begin(), input.end());
  const std::array<hg::index_t, 3> extents{size.batch, size.height, size.width};
  for (const auto& mesh : meshes(static_cast<int>(size.batch))) {
    CAPTURE(text(mesh));
    const auto result = run(mesh, parameters, input);
    CHECK(relative_error(result.output, single.output) < 1e-12);
    CHECK(relative_error(result.input_gradient, single.input_gradient) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, single.parameter_gradient) < 1e-12);
    if constexpr (Bitwise) {
      const auto one = infer<Model, In>(alone(), extents, narrow, image);
      const auto many = infer<Model, In>(mesh, extents, narrow, image);
      CHECK(one == many);
    }
  }
}

}  // namespace support
