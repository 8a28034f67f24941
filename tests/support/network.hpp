// Runs a network on a mesh from whole arrays to whole arrays, so that any mesh can be compared with a reference.
#pragma once

#include <halogen/halogen.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/ran.hpp"

namespace support {

using Mesh = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

/// The same with depth.
using VolumeMesh = hg::Mesh<"data", "depth", "height", "width">;
template <class T, int Channels>
using Volume = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn, hg::dyn>, VolumeMesh, hg::Shard<0>,
                           hg::Shard<2>, hg::Shard<3>, hg::Shard<4>>;

/// Signals.
using SignalMesh = hg::Mesh<"data", "width">;
template <class T, int Channels>
using Signal = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn>, SignalMesh, hg::Shard<0>, hg::Shard<2>>;

/// The field that such a mesh cuts in all its dimensions but the channels.
template <class MeshType, class T, int Channels>
using FieldOn = std::conditional_t<MeshType::rank == 4, Volume<T, Channels>,
                                   std::conditional_t<MeshType::rank == 2, Signal<T, Channels>, Field<T, Channels>>>;

/// Extents of samples and space; and with channels, as fields take them.
template <class MeshType>
using Extents = std::array<hg::index_t, MeshType::rank>;
template <std::size_t Rank>
std::array<hg::index_t, Rank + 1> with_channels(const std::array<hg::index_t, Rank>& extents, hg::index_t channels) {
  std::array<hg::index_t, Rank + 1> all;
  all[0] = extents[0];
  all[1] = channels;
  std::copy(extents.begin() + 1, extents.end(), all.begin() + 2);
  return all;
}

/// The world of the test's main, which owns the environment.
inline hg::Communicator world() {
  static hg::Environment environment;
  return environment.world();
}

/// All meshes data x height x width of the world's ranks, with at most `batch` in data.
inline Meshes<Mesh> meshes(int batch) {
  const int ranks = world().size();
  Meshes<Mesh> result;
  for (int data = 1; data <= batch; ++data)
    for (int height = 1; height <= ranks; ++height)
      if (ranks % (data * height) == 0)
        result.push_back(hg::device_mesh<Mesh>(world(), {data, height, ranks / (data * height)}));
  return result;
}

/// All meshes data x depth x height x width.
inline Meshes<VolumeMesh> volume_meshes(int batch) {
  const int ranks = world().size();
  Meshes<VolumeMesh> result;
  for (int data = 1; data <= batch; ++data)
    for (int depth = 1; depth <= ranks; ++depth)
      for (int height = 1; height <= ranks; ++height)
        if (ranks % (data * depth * height) == 0)
          result.push_back(
              hg::device_mesh<VolumeMesh>(world(), {data, depth, height, ranks / (data * depth * height)}));
  return result;
}

/// Those of either kind.
template <class MeshType>
Meshes<MeshType> meshes_of(int batch) {
  if constexpr (MeshType::rank == 4)
    return volume_meshes(batch);
  else if constexpr (MeshType::rank == 2) {
    Meshes<MeshType> result;
    for (int data = 1; data <= batch; ++data)
      if (world().size() % data == 0)
        result.push_back(hg::device_mesh<MeshType>(world(), {data, world().size() / data}));
    return result;
  } else
    return meshes(batch);
}

template <class MeshType>
std::string text(const hg::DeviceMesh<MeshType>& mesh) {
  std::string text;
  for (const int extent : mesh.extents()) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
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
  std::vector<T> parameters_after;  ///< buffers have changed
  std::vector<hg::index_t> space;   ///< the output's extents without samples and channels; ones, if it is vectors
  double loss = 0;
  hg::CommStatistics traffic;
};

/// Numbers in another type, rounded.
template <class To, class From>
std::vector<To> as(const std::vector<From>& values) {
  return std::vector<To>(values.begin(), values.end());
}

/// A field placed as the prediction for an image: as the image, or vectors of its samples.
template <class ModelType, class Image, int Channels>
using LikePrediction = typename std::conditional_t<hg::detail::makes_vectors<ModelType, Image::tensor_type::extents[1]>,
                                                   hg::detail::vectors_of<Image, Channels>,
                                                   hg::detail::with_channels<Image, Channels>>::type;

/// A field of these cuts from the whole array, which every rank has.
template <class F, class MeshType, class T>
F cut_by(const hg::DeviceMesh<MeshType>& mesh, const std::array<hg::Cut, F::rank>& cuts, const std::vector<T>& full) {
  F field(mesh, cuts);
  std::vector<typename F::value_type> piece;
  hg::detail::for_each_point(field, mesh.rank(), [&](hg::index_t i) {
    piece.push_back(static_cast<typename F::value_type>(full[static_cast<std::size_t>(i)]));
  });
  field.copy_from_host(piece);
  return field;
}

/// The same field of other values.
template <class Field, class V>
struct WithValues;
template <class T, int... Extents, class MeshType, class... P, class V>
struct WithValues<hg::Sharded<hg::Tensor<T, Extents...>, MeshType, P...>, V> {
  using type = hg::Sharded<hg::Tensor<V, Extents...>, MeshType, P...>;
};

/// One forward and backward. `label` is the loss's second argument, in a field of L with Out channels, `weight` may be
/// empty. All arrays are whole.
template <class ModelType, int Out, class Loss, class L = void, class MeshType, class Image, class T>
Result<T> train_image(const hg::DeviceMesh<MeshType>& mesh, const Image& image, const std::vector<T>& parameters,
                      const std::vector<T>& label, const std::vector<T>& weight = {}, const Loss& loss = {}) {
  hg::Parameters<ModelType, T> values;
  values.copy_from_host(parameters);
  hg::Network<ModelType, T> network;
  auto& evaluation = network.template evaluation<hg::PlanKind::training_with_input_gradient>(image);
  // The label is cut as the prediction, which only the network knows: distribute by its cuts.
  auto cut_as_prediction = [&]<int Channels, class V>(const std::vector<T>& full) {
    const hg::Plan& plan = evaluation.plan();
    const int level = plan.tensors[plan.prediction[0]].level;
    using Like = typename WithValues<LikePrediction<ModelType, Image, Channels>, V>::type;
    return cut_by<Like>(mesh, evaluation.layout().template field_cuts<Like::rank>(level, Channels), full);
  };
  hg::Parameters<ModelType, T, hg::Partial<hg::Sum>> gradient("gradient", mesh.world());
  const hg::CommStatistics before = hg::comm_stats();
  using S = typename Image::value_type;
  const auto target = cut_as_prediction.template operator()<Out, std::conditional_t<std::is_void_v<L>, S, L>>(label);
  if (weight.empty()) {
    hg::detail::run_training(evaluation, loss, values.data(), gradient.data(), image, target, hg::no_weight);
  } else {
    const auto weights = cut_as_prediction.template operator()<1, S>(weight);
    hg::detail::run_training(evaluation, loss, values.data(), gradient.data(), image, target, weights);
  }
  Result<T> result;
  result.loss = evaluation.loss();
  result.parameter_gradient = hg::redistribute<hg::Replicate>(gradient).to_host();
  result.parameter_gradient.resize(parameters.size());  // buffers have none: 0
  result.traffic = hg::comm_stats() - before;
  result.parameters_after = values.to_host();
  const auto prediction = network.prediction(image, evaluation);
  for (int d = 2; d < Image::rank; ++d) result.space.push_back(d < prediction.rank ? prediction.extent(d) : 1);
  result.output = as<T>(hg::full_tensor(prediction));
  result.input_gradient = as<T>(hg::full_tensor(network.input_gradient(image, evaluation)));
  return result;
}

/// The same of an image in an array. extents: (N, H, W), or (N, D, H, W) on a VolumeMesh. S: the value type of all
/// fields, T where it is void. Throws unless the output has `output_extents`.
template <class ModelType, int In, int Out, class Loss, class S = void, class MeshType, class T>
Result<T> train_once(const hg::DeviceMesh<MeshType>& mesh, Extents<MeshType> extents, const std::vector<T>& parameters,
                     const std::vector<T>& input, std::array<hg::index_t, MeshType::rank - 1> output_extents,
                     const std::vector<T>& label, const std::vector<T>& weight = {}) {
  using Value = std::conditional_t<std::is_void_v<S>, T, S>;
  auto image = hg::distribute_tensor<FieldOn<MeshType, Value, In>>(mesh, with_channels(extents, In), as<Value>(input));
  Result<T> result = train_image<ModelType, Out, Loss>(mesh, image, parameters, label, weight);
  for (std::size_t d = 0; d < output_extents.size(); ++d)
    if (result.space[d] != output_extents[d])
      throw std::logic_error("train_once: the output has " + std::to_string(result.space[d]) + " points in dimension " +
                             std::to_string(d + 2) + ", but the test says " + std::to_string(output_extents[d]));
  return result;
}

/// Forward only.
template <class ModelType, int In, class MeshType, class T>
std::vector<T> infer(const hg::DeviceMesh<MeshType>& mesh, Extents<MeshType> extents, const std::vector<T>& parameters,
                     const std::vector<T>& input) {
  auto image = hg::distribute_tensor<FieldOn<MeshType, T, In>>(mesh, with_channels(extents, In), input);
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

/// Whether a refusal says that a piece would have no plane, row or column: such meshes are not this test's subject.
inline bool leaves_a_piece_empty(const std::exception& error) {
  const std::string text = error.what();
  return text.find("without any") != std::string::npos;
}

/// The same, asked before anything runs.
template <class Model, class Image, class MeshType>
bool leaves_a_piece_empty(const hg::DeviceMesh<MeshType>& mesh, const typename Image::Extents& extents) {
  try {
    hg::layout_of<Image>(Model{}, mesh, extents);
    return false;
  } catch (const hg::CollectiveError& error) {
    if (!leaves_a_piece_empty(error)) throw;
    return true;
  }
}

}  // namespace support
