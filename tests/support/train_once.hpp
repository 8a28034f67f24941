// Runs a network on a mesh from whole arrays to whole arrays, so that any mesh can be compared with a reference.
#pragma once

#include <halogen/train/evaluate_loss.hpp>
#include <halogen/train/explain_training.hpp>
#include <halogen/train/network_output.hpp>
#include <halogen/train/value_and_grad.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/meshes.hpp"

namespace support {

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
