// The types of fields with which an exported model is called: meshes that cut samples and space, as many as it has.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "halogen/model.h"
#include "halogen/train/field_inputs.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"

namespace halogen::detail {

template <int Dimensions>
struct HostMesh;
template <>
struct HostMesh<1> {
  using type = Mesh<"samples", "width">;
  template <class V, int C>
  using field = Sharded<Tensor<V, dyn, C, dyn>, type, Shard<0>, Shard<2>>;
  template <class V, int C>
  using vectors = Sharded<Tensor<V, dyn, C>, type, Shard<0>, Replicate>;
};
template <>
struct HostMesh<2> {
  using type = Mesh<"samples", "height", "width">;
  template <class V, int C>
  using field = Sharded<Tensor<V, dyn, C, dyn, dyn>, type, Shard<0>, Shard<2>, Shard<3>>;
  template <class V, int C>
  using vectors = Sharded<Tensor<V, dyn, C>, type, Shard<0>, Replicate, Replicate>;
};
template <>
struct HostMesh<3> {
  using type = Mesh<"samples", "depth", "height", "width">;
  template <class V, int C>
  using field = Sharded<Tensor<V, dyn, C, dyn, dyn, dyn>, type, Shard<0>, Shard<2>, Shard<3>, Shard<4>>;
  template <class V, int C>
  using vectors = Sharded<Tensor<V, dyn, C>, type, Shard<0>, Replicate, Replicate, Replicate>;
};

/// Dimensions of space: those of a model's windows; of a model without any, 2.
template <class ModelType>
inline constexpr int dimensions_of_model = [] {
  constexpr int windows = graph_of<ModelType, input_channels<ModelType>>.windows;
  return windows == 0 ? 2 : windows;
}();

/// One input, or output: Kind as in halogen_about.
template <class T, int Dimensions, bool Vectors, bool Integer, int Channels>
struct HostField {
  using value_type = std::conditional_t<Integer, std::int64_t, T>;
  using Meshes = HostMesh<Dimensions>;
  using type =
      typename std::conditional_t<Vectors, std::type_identity<typename Meshes::template vectors<value_type, Channels>>,
                                  std::type_identity<typename Meshes::template field<value_type, Channels>>>::type;
  static constexpr int kind = (Vectors ? 2 : 0) + (Integer ? 1 : 0);
  static constexpr int channels = Channels, dimensions = Dimensions;
  static constexpr bool vectors = Vectors;
};

/// The inputs of a model.
template <class ModelType, class T, class Declared = typename inputs_of<ModelType>::type>
struct HostInputs;
template <class ModelType, class T>
struct HostInputs<ModelType, T, std::tuple<>> {
  using each = std::tuple<HostField<T, dimensions_of_model<ModelType>, false, false, input_channels<ModelType>>>;
};
template <class ModelType, class T, class... Input>
struct HostInputs<ModelType, T, std::tuple<Input...>> {
  using each = std::tuple<
      HostField<T, dimensions_of_model<ModelType>, Input::shape.whole, Input::shape.integer, Input::shape.channels>...>;
};

/// What a network is given: a field, or Inputs of several.
template <class Each>
struct GivenOf;
template <class Only>
struct GivenOf<std::tuple<Only>> {
  using type = typename Only::type;
};
template <class First, class Second, class... More>
struct GivenOf<std::tuple<First, Second, More...>> {
  using type = Inputs<typename First::type, typename Second::type, typename More::type...>;
};

/// A field of the I-th input.
template <std::size_t I, class Given>
const auto& input_of(const Given& given) {
  if constexpr (I == 0)
    return static_cast<const FirstOf<Given>&>(given);
  else
    return std::get<I - 1>(given.more);
}

/// How a library trains: the loss and the optimiser of HALOGEN_EXPORT. A type of the user's has these two as well.
struct NoTraining {};
template <auto Loss, class Optimizer>
struct TrainedBy {
  using optimizer = Optimizer;
  static auto loss() { return Loss; }
};
template <class Training>
inline constexpr bool trains = requires { typename Training::optimizer; };

/// Labels of an output for a loss: classes where it takes them, else numbers.
template <class Loss, class Output, int Channels>
using LabelOf =
    HostField<typename Output::value_type, Output::dimensions, Output::vectors, takes_classes<Loss>, Channels>;
template <class Loss, class Output>
inline constexpr int channels_of_label =
    label_channels<Loss, typename LabelOf<Loss, Output, 1>::type>(Output::channels);

/// Of a library's training. Without any, nothing is asked of them.
template <class Training, int Number, class Output>
struct HostLabel {
  using field = Output;
};
template <class Training, int Number, class Output>
  requires trains<Training>
struct HostLabel<Training, Number, Output> {
  using Loss = OneOf<Number, decltype(Training::loss())>;
  using field = LabelOf<Loss, Output, channels_of_label<Loss, Output>>;
};

}  // namespace halogen::detail
