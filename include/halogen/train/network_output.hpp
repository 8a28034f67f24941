// A network inside an expression: infer(parameters, x) of a variable or an expression is a stage, so that losses are
// written in the array language and gradients with respect to the input come from value_and_grad.
//
//   auto [loss, dx] = value_and_grad([&](auto x) { return mean(square(infer(parameters, x) - y)); })(image);
//
// Placements of x in and out; collectives of its layers, forward and backward.
#pragma once

#include <memory>

#include "halogen/autograd/gradient.hpp"
#include "halogen/expr/explain_expression.hpp"
#include "halogen/train/network.hpp"

namespace halogen {
namespace detail {

/// The field type in which a model takes its images.
template <class ModelType, class T, class Where>
struct image_of;
template <class ModelType, class T, class MeshType, int... Codes>
struct image_of<ModelType, T, Placed<MeshType, 5, Codes...>> {
  using type = Sharded<Tensor<T, dyn, input_channels<ModelType>, dyn, dyn, dyn>, MeshType,
                       typename placement_of<Codes>::type...>;
};
template <class ModelType, class T, class MeshType, int... Codes>
struct image_of<ModelType, T, Placed<MeshType, 4, Codes...>> {
  using type =
      Sharded<Tensor<T, dyn, input_channels<ModelType>, dyn, dyn>, MeshType, typename placement_of<Codes>::type...>;
};

}  // namespace detail

/// A model's output for E; made by infer(parameters, expression).
template <class ModelType, class T, class E>
struct NetworkOutput : detail::FieldStage<NetworkOutput<ModelType, T, E>,
                                          typename Network<ModelType, T>::template Prediction<
                                              typename detail::image_of<ModelType, T, typename E::placed>::type>> {
  using Image = typename detail::image_of<ModelType, T, typename E::placed>::type;
  using Net = Network<ModelType, T>;
  using Result = typename Net::template Prediction<Image>;
  static constexpr PlanKind plan = detail::has_variable<E> ? PlanKind::vjp : PlanKind::inference;

  /// Backward reads the image where forward read it, so that it is kept as long as the network.
  struct Run {
    Net network;
    Image image;
  };

  Parameters<ModelType, T> parameters;
  E inner;
  std::shared_ptr<Run> run = std::make_shared<Run>();
  NetworkOutput(const Parameters<ModelType, T>& p, E e) : parameters(p), inner(std::move(e)) {}

  index_t extent(int d) const { return this->field().extent(d); }
  Cut grid(int d) const { return this->field().cut(d); }

  Result compute() const {
    const Image image = detail::materialised<Image>(inner);
    if constexpr (plan == PlanKind::vjp) run->image = image;
    auto& evaluation = run->network.template evaluation<plan>(image);
    evaluation.forward(detail::view_of(image), parameters.data());
    return Net::prediction(image, evaluation);
  }
};

namespace detail {

template <class ModelType, class T, class E>
inline constexpr bool has_variable<NetworkOutput<ModelType, T, E>> = has_variable<E>;
template <class ModelType, class T, class E>
inline constexpr const char* stage_text<NetworkOutput<ModelType, T, E>> = "network, see explain of the model";

template <class ModelType, class T, class E, class C, class All>
void pull(const NetworkOutput<ModelType, T, E>& node, const C& cotangent, All& gradients) {
  node.field();  // forward has run
  const auto& image = node.run->image;
  auto& evaluation = node.run->network.template evaluation<PlanKind::vjp>(image);
  const Parameters<ModelType, T, Partial<Sum>> unused("halogen::gradient", sub_meshes(image).samples);
  run_vjp(evaluation, cotangent, unused.data());
  backward(node.inner, leaf(Network<ModelType, T>::input_gradient(image, evaluation)), gradients);
}

}  // namespace detail

namespace detail {
template <class ModelType, class T, class E>
using ImageFor = typename image_of<ModelType, T, typename E::placed>::type;
}

template <class ModelType, class T, Expression E>
  requires(E::placed::rank >= 4 && Fits<ModelType, detail::ImageFor<ModelType, T, E>>)
auto infer(const Parameters<ModelType, T>& parameters, const E& expression) {
  using Inner = expression_of<E>;
  return NetworkOutput<ModelType, T, Inner>(parameters, as_expression(expression));
}

template <class ModelType, class T, Expression E, class Why = WhyNot<ModelType, detail::ImageFor<ModelType, T, E>>>
  requires(E::placed::rank >= 4 && !Fits<ModelType, detail::ImageFor<ModelType, T, E>>)
void infer(const Parameters<ModelType, T>& parameters, const E& expression) = delete;

}  // namespace halogen
