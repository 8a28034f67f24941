// A network inside an expression: infer(parameters, x) of a variable or an expression is a stage, so that losses are
// written in the array language and gradients with respect to the input come from value_and_grad.
//
//   auto [loss, dx] = value_and_grad([&](auto x) { return mean(square(infer(parameters, x) - y)); })(image);
//
// In value_and_grad(f)(parameters) the network is a variable, net(x) such a stage too, and its parameters are given a
// gradient (train/value_and_grad.hpp).
//
// A model of several inputs takes as many, each a field or an expression: net(x, time, label). One of several outputs
// gives a tuple: auto [height, kind] = net(x).
//
// Placements of x in and out; collectives of its layers, forward and backward.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "halogen/array/stages/explain_expression.hpp"
#include "halogen/autograd/gradient.hpp"
#include "halogen/train/network.hpp"

namespace halogen {
namespace detail {

/// The channels that E's type tells; dyn where it does not.
template <class E>
inline constexpr int channels_of = static_extent<E>(1);

/// The field type in which a model takes E as its image: with E's channels, else those of the model's first layer.
template <class T, int Channels, class Where>
struct image_of;
template <class T, int Channels, class MeshType, int... Codes>
struct image_of<T, Channels, Placed<MeshType, 5, Codes...>> {
  using type = Sharded<Tensor<T, dyn, Channels, dyn, dyn, dyn>, MeshType, typename placement_of<Codes>::type...>;
};
template <class T, int Channels, class MeshType, int... Codes>
struct image_of<T, Channels, Placed<MeshType, 4, Codes...>> {
  using type = Sharded<Tensor<T, dyn, Channels, dyn, dyn>, MeshType, typename placement_of<Codes>::type...>;
};
template <class T, int Channels, class MeshType, int... Codes>
struct image_of<T, Channels, Placed<MeshType, 2, Codes...>> {
  using type = Sharded<Tensor<T, dyn, Channels>, MeshType, typename placement_of<Codes>::type...>;
};
template <class T, int Channels, class MeshType, int... Codes>
struct image_of<T, Channels, Placed<MeshType, 3, Codes...>> {
  using type = Sharded<Tensor<T, dyn, Channels, dyn>, MeshType, typename placement_of<Codes>::type...>;
};
template <class ModelType, class T, class E>
using FirstFor =
    typename image_of<T, channels_of<E> == dyn ? input_channels<ModelType> : channels_of<E>, typename E::placed>::type;

/// The same of the I-th input, from 1: with the channels that the model names, of E's own type where it holds indices.
template <class ModelType, class T, std::size_t I, class E>
struct further_input {
  using Named = typename inputs_of<ModelType>::type;
  static constexpr InputShape shape = [] {
    if constexpr (I < std::tuple_size_v<Named>)
      return std::tuple_element_t<I, Named>::shape;
    else
      return InputShape{1};
  }();
  using type = typename image_of<std::conditional_t<shape.integer, typename E::value_type, T>,
                                 channels_of<E> == dyn ? shape.channels : channels_of<E>, typename E::placed>::type;
};

template <class ModelType, class T, class Numbers, class E, class... More>
struct all_inputs;
template <class ModelType, class T, class E>
struct all_inputs<ModelType, T, std::index_sequence<>, E> {
  using type = FirstFor<ModelType, T, E>;
};
template <class ModelType, class T, std::size_t... I, class E, class... More>
  requires(sizeof...(I) > 0)
struct all_inputs<ModelType, T, std::index_sequence<I...>, E, More...> {
  using type = Inputs<FirstFor<ModelType, T, E>, typename further_input<ModelType, T, 1 + I, More>::type...>;
};
template <class ModelType, class T, class E, class... More>
using ImageFor = typename all_inputs<ModelType, T, std::index_sequence_for<More...>, E, More...>::type;

}  // namespace detail

namespace detail {

namespace types {
/// A network in an expression: its parameters, its images E and More, and its plan with its memory.
template <class ModelType, class T, class E, int Variable, class... More>
struct NetworkNode {
  using model_type = ModelType;
  using parameter_type = T;
  using Image = ImageFor<ModelType, T, E, More...>;
  using Net = Network<ModelType, T>;
  using Prediction = typename Net::template Prediction<Image>;
  static constexpr int variable = Variable;
  static constexpr VariableSet variables =
      (variables_of<E> | ... | variables_of<More>) | (Variable >= 0 ? VariableSet{1} << (Variable & 63) : 0);
  static constexpr PlanKind plan = variables != 0 ? PlanKind::vjp : PlanKind::inference;
  using Source = FirstOf<Image>;
  static constexpr const char* text = "network, see explain of the model";

  /// Backward reads the image where forward read it, so that it is kept as long as the network.
  struct Run {
    Net network;
    std::optional<Image> image;
    std::weak_ptr<typename Net::template EvaluationOf<plan, Image>> evaluation;  ///< of this image, the network's
    RandomStream random;            ///< of networks whose parameters are variables
    bool has_kept = false;          ///< what forward left for one backward is there
    bool keeps_statistics = false;  ///< CalledNetworks
  };

  Parameters<ModelType, T> parameters;
  std::tuple<E, More...> parts;
  std::shared_ptr<Run> run;
  NetworkNode(const Parameters<ModelType, T>& p, std::shared_ptr<Run> kept, E e, More... more)
      : parameters(p), parts(std::move(e), std::move(more)...), run(std::move(kept)) {
    check_width<T>(std::get<0>(parts));
  }

  template <class F>
  auto operands(const F& f) const {
    return std::apply(f, parts);
  }

  /// Of the Number-th output, known without a run.
  template <int Number>
  index_t extent_of(int d) const {
    using Field = OutputField<ModelType, Image, Number>;
    if (d == 0) return stored_extent(std::get<0>(parts), 0);
    if (d == 1) return Field::tensor_type::extents[1];
    constexpr int dimensions = FirstOf<Image>::rank - 2;
    std::array<Cut, dimensions> space;
    for (int s = 0; s < dimensions; ++s)
      space[static_cast<std::size_t>(s)] = {{0, stored_extent(std::get<0>(parts), 2 + s)}};
    const Plan& planned = plan_of<ModelType, Image::tensor_type::extents[1], plan>;
    const std::vector<LevelLayout> levels = layout_levels(planned, space, "1");
    const int level = planned.tensors[planned.prediction[Number]].level;
    return levels[static_cast<std::size_t>(level)].extent(spatial_dimensions - dimensions + d - 2);
  }

  Prediction predict() const {
    const Image image = image_of_parts(std::index_sequence_for<E, More...>{});
    if constexpr (plan == PlanKind::vjp) run->image = image, run->has_kept = true;
    const auto evaluation = run->network.template bind<plan>(image);
    if constexpr (plan == PlanKind::vjp) evaluation->keep_statistics(run->keeps_statistics);
    run->evaluation = evaluation;
    evaluation->set_random(run->random);
    evaluation->forward(views_of(image), parameters.data());
    return Net::prediction(image, *evaluation);
  }

 private:
  template <std::size_t... I>
  Image image_of_parts(std::index_sequence<I...>) const {
    return Image(materialised<typename given<Image>::template field<I>>(std::get<I>(parts))...);
  }
};
}  // namespace types
using types::NetworkNode;

}  // namespace detail

/// A model's output for E; made by infer(parameters, expression), and by net(x) where the parameters are the
/// Variable-th argument of what is differentiated. More: its further inputs.
template <class ModelType, class T, class E, int Variable = -1, class... More>
struct NetworkOutput
    : detail::NetworkNode<ModelType, T, E, Variable, More...>,
      detail::FieldStage<NetworkOutput<ModelType, T, E, Variable, More...>,
                         typename detail::NetworkNode<ModelType, T, E, Variable, More...>::Prediction> {
  using Node = detail::NetworkNode<ModelType, T, E, Variable, More...>;
  using Result = typename Node::Prediction;
  using Node::Node;

  using Node::text;
  index_t extent(int d) const { return Node::template extent_of<0>(d); }
  Result compute() const { return Node::predict(); }
};

/// The same of a model that returns several: all of them are computed together.
template <class ModelType, class T, class E, int Variable = -1, class... More>
struct NetworkOutputs : detail::NetworkNode<ModelType, T, E, Variable, More...> {
  using Node = detail::NetworkNode<ModelType, T, E, Variable, More...>;
  using Node::Node;
  detail::StageResult<typename Node::Prediction> identity;

  const typename Node::Prediction& fields() const {
    return identity.get([this] { return Node::predict(); });
  }
};

/// The Number-th of them.
template <int Number, class Outputs>
struct OutputOf
    : detail::FieldStage<OutputOf<Number, Outputs>, std::tuple_element_t<Number, typename Outputs::Prediction>> {
  using Result = std::tuple_element_t<Number, typename Outputs::Prediction>;
  Outputs outputs;
  static constexpr detail::VariableSet variables = Outputs::variables;
  static constexpr detail::FieldWidths field_widths{sizeof(typename Result::value_type), 0};
  static constexpr const char* text = nullptr;  // the network says it
  explicit OutputOf(const Outputs& all) : outputs(all) {}

  template <class F>
  auto operands(const F& f) const {
    return f(outputs);
  }
  index_t extent(int d) const { return outputs.template extent_of<Number>(d); }
  Result compute() const { return std::get<Number>(outputs.fields()); }
};

namespace detail {

/// The gradient of the I-th input, where it has one.
template <std::size_t I, class ModelType, class T, class Node, class Image, class Evaluation, class All>
void pull_input(const Node& node, const Image& image, const Evaluation& evaluation, All& gradients) {
  using Part = std::tuple_element_t<I, decltype(Node::parts)>;
  if constexpr (has_variable<Part>) {
    using Named = typename inputs_of<ModelType>::type;
    if constexpr (I < std::tuple_size_v<Named>)
      static_assert(std::tuple_element_t<I, Named>::shape.gradient,
                    "input_has_no_gradient: the model names this input WithoutGradient or Indices");
    backward(std::get<I>(node.parts), leaf(Network<ModelType, T>::template input_gradient<I>(image, evaluation)),
             gradients);
  }
}

/// Backward of a network that has run forward, from the cotangents of its outputs in the types that it stores.
template <class ModelType, class T, class E, int Variable, class... More, class All, class... C>
void pull_network(const NetworkNode<ModelType, T, E, Variable, More...>& node, All& gradients, const C&... cotangents) {
  const auto& image = *node.run->image;
  auto& evaluation = *node.run->evaluation.lock();  // the network keeps it until it is given another image
  if (std::exchange(node.run->has_kept, false)) {
    evaluation.rebind_inputs(views_of(image));  // other readers may have made its margin grow since
  } else {
    // another region's backward has used its memory again
    evaluation.keep_statistics(false);
    evaluation.forward(views_of(image), node.parameters.data());
  }
  const Parameters<ModelType, T, Partial<Sum>> share("halogen::gradient", sub_meshes(image).samples);
  run_vjp(evaluation, share.data(), cotangents...);
  if constexpr (Variable >= 0) add_parameters<Variable>(gradients, share);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (pull_input<I, ModelType, T>(node, image, evaluation, gradients), ...);
  }(std::index_sequence_for<E, More...>{});
}

/// A cotangent of the network's type where the loss is of another.
template <class T, class C>
auto owed_in(const C& cotangent) {
  return materialised<field_of_t<FieldLeaf<C>, T>>(leaf(cotangent));
}

template <class ModelType, class T, class E, int Variable, class... More, class C, class All>
void pull(const NetworkOutput<ModelType, T, E, Variable, More...>& node, const C& cotangent, All& gradients) {
  node.field();  // forward has run
  pull_network(node, gradients, owed_in<T>(cotangent));
}

/// What the outputs of one network are owed, of those that an expression reads.
template <class... Fields>
struct OwedToOutputs {
  std::tuple<std::optional<Fields>...> fields;

  friend OwedToOutputs operator+(OwedToOutputs a, const OwedToOutputs& b) {
    const auto add = [](auto& sum, const auto& term) {
      if (!term) return;
      if (sum)
        sum->rebind(evaluated(*sum, *sum + *term));
      else
        sum = term;
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (add(std::get<I>(a.fields), std::get<I>(b.fields)), ...);
    }(std::index_sequence_for<Fields...>{});
    return a;
  }
};
template <class T, class Prediction>
struct owed_to_outputs;
template <class T, class... Fields>
struct owed_to_outputs<T, std::tuple<Fields...>> {
  using type = OwedToOutputs<field_of_t<FieldLeaf<Fields>, T>...>;
};

/// An output hands its cotangent to the network, which waits for those of the others.
template <int Number, class Outputs, class C, class All>
void pull(const OutputOf<Number, Outputs>& output, const C& cotangent, All& gradients) {
  using T = typename Outputs::parameter_type;
  typename owed_to_outputs<T, typename Outputs::Prediction>::type owed;
  std::get<Number>(owed.fields) = owed_in<T>(cotangent);
  gradients.defer(output.outputs, owed);
}

template <class ModelType, class T, class E, int Variable, class... More>
struct CotangentOf<NetworkOutputs<ModelType, T, E, Variable, More...>> {
  /// Outputs that no expression reads are owed zeros.
  template <class C, class All>
  static void pass(const NetworkOutputs<ModelType, T, E, Variable, More...>& node, const C& owed, All& gradients) {
    const auto& predictions = node.fields();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto or_zeros = [&]<class Field>(const std::optional<Field>& field, const auto& like) {
        return field ? *field : Field(Field::make_shape(like.mesh(), like.cuts()));
      };
      pull_network(node, gradients, or_zeros(std::get<I>(owed.fields), std::get<I>(predictions))...);
    }(std::make_index_sequence<static_cast<std::size_t>(outputs_of<ModelType>)>{});
  }
};

/// Fields and expressions as the image of a network.
template <class ModelType, class T, class X, class... More>
using ImageOf = ImageFor<ModelType, T, expression_of<X>, expression_of<More>...>;

/// The node that computes it, by the number of its outputs.
template <class ModelType, class T, int Variable, class First, class... More>
using NetworkNodeOf =
    std::conditional_t<outputs_of<ModelType> == 1, NetworkOutput<ModelType, T, First, Variable, More...>,
                       NetworkOutputs<ModelType, T, First, Variable, More...>>;

/// A tuple of the outputs of a network that has several.
template <class Outputs>
auto outputs_apart(const Outputs& all) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::tuple(OutputOf<I, Outputs>(all)...);
  }(std::make_integer_sequence<int, outputs_of<typename Outputs::model_type>>{});
}

template <class ModelType, class T, class First, class... More>
auto network_output(const Parameters<ModelType, T>& parameters, const First& first, const More&... more) {
  using Node = NetworkNodeOf<ModelType, T, -1, expression_of<First>, expression_of<More>...>;
  const Node node(parameters, std::make_shared<typename Node::Run>(), as_expression(first), as_expression(more)...);
  if constexpr (outputs_of<ModelType> == 1)
    return node;
  else
    return outputs_apart(node);
}

/// Names what does not fit, where overloads cannot.
template <class Why>
void refused() = delete;

}  // namespace detail

/// An expression; for a model of several inputs a field or an expression for each of them.
template <class ModelType, class T, FieldOperand First, FieldOperand... More>
  requires(Expression<First> || sizeof...(More) > 0)
auto infer(const Parameters<ModelType, T>& parameters, const First& first, const More&... more) {
  if constexpr (is_sharded<First> && (is_sharded<More> && ...))
    return infer(parameters, Inputs{first, more...});
  else if constexpr (Fits<ModelType, detail::ImageOf<ModelType, T, First, More...>>)
    return detail::network_output<ModelType>(parameters, first, more...);
  else
    detail::refused<WhyNot<ModelType, detail::ImageOf<ModelType, T, First, More...>>>();
}

}  // namespace halogen
