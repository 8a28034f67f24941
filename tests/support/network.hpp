// Runs a network on a mesh from whole arrays to whole arrays, so that any mesh can be compared with a reference.
#pragma once

#include <halogen/halogen.hpp>
#include <string>
#include <vector>

namespace support {

using Mesh = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

/// The world of the test's main, which owns the environment.
inline hg::Communicator world() {
  static hg::Environment environment;
  return environment.world();
}

/// All meshes data x height x width of the world's ranks, with at most `batch` in data.
inline std::vector<hg::DeviceMesh<Mesh>> meshes(int batch) {
  const int ranks = world().size();
  std::vector<hg::DeviceMesh<Mesh>> result;
  for (int data = 1; data <= batch; ++data)
    for (int height = 1; height <= ranks; ++height)
      if (ranks % (data * height) == 0)
        result.push_back(hg::device_mesh<Mesh>(world(), {data, height, ranks / (data * height)}));
  return result;
}

template <class Mesh>
std::string text(const hg::DeviceMesh<Mesh>& mesh) {
  return std::to_string(mesh.extent(0)) + "x" + std::to_string(mesh.extent(1)) + "x" + std::to_string(mesh.extent(2));
}

/// loss = sum of p * y / N: its gradient with respect to p is y / N, any cotangent.
struct InnerProduct : hg::LossFunction<InnerProduct> {
  struct pointwise {
    template <class T>
    KOKKOS_FUNCTION static T value(T p, T y) {
      return p * y;
    }
    template <class T>
    KOKKOS_FUNCTION static T slope(T, T y) {
      return y;
    }
  };
};

template <class T>
struct Result {
  std::vector<T> output, input_gradient, parameter_gradient;
  double loss = 0;
  hg::CommStatistics traffic;
};

/// One forward and backward. `label` is the loss's second argument, `weight` may be empty. extents: (N, H, W).
template <class ModelType, int In, int Out, class Loss, class T>
Result<T> train_once(const hg::DeviceMesh<Mesh>& mesh, std::array<hg::index_t, 3> extents,
                     const std::vector<T>& parameters, const std::vector<T>& input,
                     std::array<hg::index_t, 2> output_extents, const std::vector<T>& label,
                     const std::vector<T>& weight = {}) {
  const auto [n, h, w] = extents;
  auto image = hg::distribute_tensor<Field<T, In>>(mesh, {n, In, h, w}, input);
  hg::Parameters<ModelType, T> values;
  values.copy_from_host(parameters);
  hg::Network<ModelType, T> network;
  auto& evaluation = network.template evaluation<hg::PlanKind::training_with_input_gradient>(image);
  // The label is cut as the prediction, which only the network knows: distribute by its cuts.
  auto cut_as_prediction = [&]<int Channels>(const std::vector<T>& full) {
    const hg::Plan& plan = evaluation.plan();
    const auto& level = evaluation.layout().level(plan.tensors[plan.prediction].level);
    hg::Cut channels;
    channels.bounds = {0, Channels};
    Field<T, Channels> field(mesh, {image.cut(0), channels, level.cut[0], level.cut[1]});
    std::vector<T> piece;
    hg::detail::for_each_point(field, mesh.rank(),
                               [&](hg::index_t i) { piece.push_back(full[static_cast<std::size_t>(i)]); });
    field.copy_from_host(piece);
    return field;
  };
  static_cast<void>(output_extents);
  hg::Parameters<ModelType, T, hg::Partial<hg::Sum>> gradient("gradient", mesh.world());
  const hg::CommStatistics before = hg::comm_stats();
  const auto target = cut_as_prediction.template operator()<Out>(label);
  if (weight.empty()) {
    hg::detail::run_training<Loss>(evaluation, values.data(), gradient.data(), image, target, hg::no_weight);
  } else {
    const auto weights = cut_as_prediction.template operator()<1>(weight);
    hg::detail::run_training<Loss>(evaluation, values.data(), gradient.data(), image, target, weights);
  }
  Result<T> result;
  result.loss = evaluation.loss();
  result.parameter_gradient = hg::redistribute<hg::Replicate>(gradient).to_host();
  result.traffic = hg::comm_stats() - before;
  result.output = hg::full_tensor(network.prediction(image, evaluation));
  result.input_gradient = hg::full_tensor(network.input_gradient(image, evaluation));
  return result;
}

/// Forward only.
template <class ModelType, int In, class T>
std::vector<T> infer(const hg::DeviceMesh<Mesh>& mesh, std::array<hg::index_t, 3> extents,
                     const std::vector<T>& parameters, const std::vector<T>& input) {
  const auto [n, h, w] = extents;
  auto image = hg::distribute_tensor<Field<T, In>>(mesh, {n, In, h, w}, input);
  hg::Parameters<ModelType, T> values;
  values.copy_from_host(parameters);
  return hg::full_tensor(hg::infer(values, image));
}

/// Largest difference over the largest reference value; 1e300 where sizes differ or a value is not finite.
template <class A, class B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size()) return 1e300;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= 1e299)) return 1e300;
    difference = std::max(difference, d);
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return difference == 0 ? 0 : difference / size;
}

/// Numbers in (-1, 1) by index, the same everywhere.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(2 * hg::uniform_at(11, stream, i) - 1);
  return values;
}

/// Whether a refusal says that a piece would have no row or column: such meshes are not this test's subject.
inline bool leaves_a_piece_empty(const std::exception& error) {
  const std::string text = error.what();
  return text.find("without any") != std::string::npos;
}

}  // namespace support
