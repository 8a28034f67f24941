// One check of a composition: on every mesh it is what one rank alone computes, whose gradients are those of finite
// differences; a model without norms has the same bits in float on any mesh.
#pragma once

#include <doctest/doctest.h>

#include "support/alone.hpp"

namespace support {

/// Samples and space: six ranks in a row all have a piece, one level down too.
template <class MeshType>
constexpr Extents<MeshType> usual_extents() {
  if constexpr (MeshType::rank == 4)
    return {2, 12, 11, 12};
  else if constexpr (MeshType::rank == 2)
    return {2, 30};
  else
    return {2, 24, 23};
}

template <std::size_t Rank>
std::size_t points_of(const std::array<hg::index_t, Rank>& extents) {
  std::size_t points = 1;
  for (const hg::index_t extent : extents) points *= static_cast<std::size_t>(extent);
  return points;
}

/// Of an output that has the input's extents, or is a vector for each sample: its extents in space, and its points.
template <class Model, int In, std::size_t Rank>
std::array<hg::index_t, Rank - 1> output_space(const std::array<hg::index_t, Rank>& extents) {
  std::array<hg::index_t, Rank - 1> space;
  space.fill(1);
  if (!hg::detail::makes_vectors<Model, In>) std::copy(extents.begin() + 1, extents.end(), space.begin());
  return space;
}
template <class Model, int In, std::size_t Rank>
std::size_t output_points(const std::array<hg::index_t, Rank>& extents) {
  return hg::detail::makes_vectors<Model, In> ? static_cast<std::size_t>(extents[0]) : points_of(extents);
}

/// Forward and backward of the loss <output, random cotangent> / points, for such an output.
template <class Model, int In, int Out, class MeshType>
Result<double> run_composition(const hg::DeviceMesh<MeshType>& mesh, Extents<MeshType> extents,
                               const std::vector<double>& parameters, const std::vector<double>& input) {
  return train_once<Model, In, Out, InnerProduct>(mesh, extents, parameters, input, output_space<Model, In>(extents),
                                                  numbers<double>(Out * output_points<Model, In>(extents), 3));
}

/// The same loss's gradient by the parameters alone, as training plans it: without what only the input's needs.
template <class Model, int In, int Out, class MeshType>
std::vector<double> gradient_of_training(const hg::DeviceMesh<MeshType>& mesh, Extents<MeshType> extents,
                                         const std::vector<double>& parameters, const std::vector<double>& input) {
  const auto image = hg::distribute_tensor<FieldOn<MeshType, double, In>>(mesh, with_channels(extents, In), input);
  using Label = LikePrediction<Model, std::decay_t<decltype(image)>, Out>;
  const auto numbers_of_label = numbers<double>(Out * output_points<Model, In>(extents), 3);
  const auto label = [&] {
    if constexpr (Label::rank == 2)
      return hg::distribute_tensor<Label>(mesh, {extents[0], Out}, numbers_of_label);
    else
      return hg::distribute_tensor<Label>(mesh, with_channels(extents, Out), numbers_of_label);
  }();
  hg::Parameters<Model, double> values;
  values.copy_from_host(parameters);
  auto step = hg::value_and_grad([&](auto net) { return InnerProduct{}(net(image), label); });
  std::vector<double> gradient = hg::redistribute<hg::Replicate>(step(values).second).to_host();
  gradient.resize(parameters.size());  // buffers have none: 0
  return gradient;
}

/// Bitwise: the model has no norms, and inference in float gives the same bits on any mesh.
template <class Model, int In, int Out, bool Bitwise = false, class MeshType = Mesh>
void check_composition(Extents<MeshType> extents = usual_extents<MeshType>()) {
  const auto parameters = numbers<double>(hg::Parameters<Model, double>::count, 1);
  const auto input = numbers<double>(In * points_of(extents), 2);
  const auto alone = support::alone<MeshType>();
  const auto single = run_composition<Model, In, Out>(alone, extents, parameters, input);
  CHECK(single.traffic.messages.count == 0);
  CHECK(dot(single.input_gradient, single.input_gradient) > 0);

  if (world().rank() == 0) {  // it would be the same on every rank
    const auto loss_of_parameters = [&](const std::vector<double>& p) {
      return run_composition<Model, In, Out>(alone, extents, p, input).loss;
    };
    const auto loss_of_input = [&](const std::vector<double>& x) {
      return run_composition<Model, In, Out>(alone, extents, parameters, x).loss;
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
    narrow_output = infer<Model, In>(alone, extents, narrow_parameters, narrow_input);
  }
  int ran = 0, refused = 0;
  for (const auto& mesh : meshes_of<MeshType>(static_cast<int>(extents[0]))) {
    CAPTURE(text(mesh));
    if (leaves_a_piece_empty<Model, FieldOn<MeshType, double, In>>(mesh, with_channels(extents, In))) {
      ++refused;
      continue;
    }
    ++ran;
    const auto result = run_composition<Model, In, Out>(mesh, extents, parameters, input);
    CHECK(relative_error(result.output, single.output) < 1e-12);
    CHECK(relative_error(std::vector<double>{result.loss}, std::vector<double>{single.loss}) < 1e-12);
    CHECK(relative_error(result.input_gradient, single.input_gradient) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, single.parameter_gradient) < 1e-12);
    const auto gradient = gradient_of_training<Model, In, Out>(mesh, extents, parameters, input);
    CHECK(relative_error(gradient, single.parameter_gradient) < 1e-12);
    if constexpr (Bitwise) CHECK(infer<Model, In>(mesh, extents, narrow_parameters, narrow_input) == narrow_output);
  }
  CHECK(ran > refused);
}

/// The same for planes whose outputs are of other extents.
template <class Model, int In, int Out, bool Bitwise = false>
void check_resizing(Extents<Mesh> extents, hg::index_t height, hg::index_t width) {
  const auto parameters = numbers<double>(hg::Parameters<Model, double>::count, 1);
  const auto input = numbers<double>(In * points_of(extents), 2);
  const auto label = numbers<double>(Out * points_of(Extents<Mesh>{extents[0], height, width}), 3);
  const auto run = [&](const auto& mesh, const std::vector<double>& p, const std::vector<double>& x) {
    return train_once<Model, In, Out, InnerProduct>(mesh, extents, p, x, {height, width}, label);
  };
  const auto alone = support::alone();
  const auto single = run(alone, parameters, input);
  REQUIRE(single.output.size() == label.size());
  if (world().rank() == 0) {
    const auto of_parameters = [&](const auto& p) { return run(alone, p, input).loss; };
    const auto of_input = [&](const auto& x) { return run(alone, parameters, x).loss; };
    CHECK(slope_error(of_parameters, parameters, single.parameter_gradient, numbers<double>(parameters.size(), 10)) <
          1e-6);
    CHECK(slope_error(of_input, input, single.input_gradient, numbers<double>(input.size(), 11)) < 1e-6);
  }
  const std::vector<float> narrow(parameters.begin(), parameters.end()), image(input.begin(), input.end());
  for (const auto& mesh : meshes(static_cast<int>(extents[0]))) {
    CAPTURE(text(mesh));
    const auto result = run(mesh, parameters, input);
    CHECK(relative_error(result.output, single.output) < 1e-12);
    CHECK(relative_error(result.input_gradient, single.input_gradient) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, single.parameter_gradient) < 1e-12);
    if constexpr (Bitwise) {
      const auto one = infer<Model, In>(alone, extents, narrow, image);
      const auto many = infer<Model, In>(mesh, extents, narrow, image);
      CHECK(one == many);
    }
  }
}

/// Columns of the input that are NaN or infinite add nothing to gradients of parameters if no output that reads them
/// gets a gradient: the gradients are those of other numbers there. `space`: of the output.
template <class Model, int In, int Out, class MeshType = Mesh>
void check_uncounted(Extents<MeshType> extents, hg::Interval hidden, hg::Interval without_gradient,
                     std::array<hg::index_t, MeshType::rank - 1> space) {
  // Tensor cores multiply such columns by 0, and so do the device parts that the host plays (docs/known_defects.md).
  if (!hg::runs_on_host || HALOGEN_DEVICE_KERNELS > 0) return;
  Extents<MeshType> outputs = extents;
  std::copy(space.begin(), space.end(), outputs.begin() + 1);
  hg::Parameters<Model, double> parameters;
  parameters.copy_from_host(numbers<double>(hg::Parameters<Model, double>::count, 1));
  const auto filled = [](std::vector<double> values, hg::index_t width, hg::Interval columns, double number) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto x = static_cast<hg::index_t>(i) % width;
      if (x >= columns.begin && x < columns.end) values[i] = number;
    }
    return values;
  };
  const auto label = filled(numbers<double>(Out * points_of(outputs), 3), outputs.back(), without_gradient, 0);
  // Beside the gradient of the input, and alone as in training.
  const auto gradients = [&](const auto& mesh, double number) {
    const auto input = filled(numbers<double>(In * points_of(extents), 2), extents.back(), hidden, number);
    const auto image = hg::distribute_tensor<FieldOn<MeshType, double, In>>(mesh, with_channels(extents, In), input);
    const auto y = cut_by<FieldOn<MeshType, double, Out>>(mesh, hg::infer(parameters, image).cuts(), label);
    auto step = hg::value_and_grad([&](auto net) { return InnerProduct{}(net(image), y); });
    auto both = train_once<Model, In, Out, InnerProduct>(mesh, extents, parameters.to_host(), input, space, label)
                    .parameter_gradient;
    const auto own = hg::redistribute<hg::Replicate>(step(parameters).second).to_host();
    both.insert(both.end(), own.begin(), own.end());
    return both;
  };
  const auto expected = gradients(alone<MeshType>(), 0.5);
  for (const auto& mesh : meshes_of<MeshType>(static_cast<int>(extents[0]))) {
    if (leaves_a_piece_empty<Model, FieldOn<MeshType, double, In>>(mesh, with_channels(extents, In))) continue;
    CAPTURE(text(mesh));
    CHECK(relative_error(gradients(mesh, std::nan("")), expected) < 1e-12);
    CHECK(relative_error(gradients(mesh, std::numeric_limits<double>::infinity()), expected) < 1e-12);
  }
}

}  // namespace support
