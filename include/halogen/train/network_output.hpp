// A network inside an expression: infer(parameters, x) of a variable or an expression is a stage, so that losses are
// written in the array language and gradients with respect to the input come from value_and_grad.
//
//   auto [loss, dx] = value_and_grad([&](auto x) { return mean(square(infer(parameters, x) - y)); })(image);
//
// In value_and_grad(f)(parameters) the network is a variable, net(x) such a stage too, and its parameters are given a
// gradient (train/value_and_grad.hpp).
//
// Placements of x in and out; collectives of its layers, forward and backward.
#pragma once

#include <memory>
#include <utility>

#include "halogen/array/explain_expression.hpp"
#include "halogen/autograd/gradient.hpp"
#include "halogen/train/network.hpp"

namespace halogen {
namespace detail {

/// The channels that E's type tells; dyn where it does not.
template <class E>
inline constexpr int channels_of = dyn;
template <class Field>
inline constexpr int channels_of<FieldLeaf<Field>> = Field::tensor_type::extents[1];
template <int Index, class Field>
inline constexpr int channels_of<VariableLeaf<Index, Field>> = Field::tensor_type::extents[1];
template <int Dim, int Offset, class E>
inline constexpr int channels_of<Shift<Dim, Offset, E>> = channels_of<E>;
template <class E, class... B>
inline constexpr int channels_of<Bounded<E, B...>> = channels_of<E>;
template <class... E>
inline constexpr int channels_of<Concatenated<1, E...>> =
    ((channels_of<E> == dyn) || ...) ? dyn : (channels_of<E> + ...);
template <int Dim, class... E>
  requires(Dim != 1)
inline constexpr int channels_of<Concatenated<Dim, E...>> = channels_of<std::tuple_element_t<0, std::tuple<E...>>>;
template <class F, class... A>
inline constexpr int channels_of<Pointwise<F, A...>> = [] {
  int channels = dyn;
  ((channels = channels == dyn ? channels_of<A> : channels), ...);
  return channels;
}();

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
struct image_of<T, Channels, Placed<MeshType, 3, Codes...>> {
  using type = Sharded<Tensor<T, dyn, Channels, dyn>, MeshType, typename placement_of<Codes>::type...>;
};
template <class ModelType, class T, class E>
using ImageFor =
    typename image_of<T, channels_of<E> == dyn ? input_channels<ModelType> : channels_of<E>, typename E::placed>::type;

}  // namespace detail

/// A model's output for E; made by infer(parameters, expression), and by net(x) where the parameters are the
/// Variable-th argument of what is differentiated.
template <class ModelType, class T, class E, int Variable = -1>
struct NetworkOutput
    : detail::FieldStage<NetworkOutput<ModelType, T, E, Variable>,
                         typename Network<ModelType, T>::template Prediction<detail::ImageFor<ModelType, T, E>>> {
  using Image = detail::ImageFor<ModelType, T, E>;
  using Net = Network<ModelType, T>;
  using Result = typename Net::template Prediction<Image>;
  static constexpr PlanKind plan = detail::has_variable<E> || Variable >= 0 ? PlanKind::vjp : PlanKind::inference;

  /// Backward reads the image where forward read it, so that it is kept as long as the network.
  struct Run {
    Net network;
    Image image;
    bool has_kept = false;  ///< what forward left for one backward is there
  };

  Parameters<ModelType, T> parameters;
  E inner;
  std::shared_ptr<Run> run;
  NetworkOutput(const Parameters<ModelType, T>& p, E e, std::shared_ptr<Run> kept = std::make_shared<Run>())
      : parameters(p), inner(std::move(e)), run(std::move(kept)) {
    detail::check_width<T>(inner);
  }

  /// Known without a run.
  index_t extent(int d) const {
    if (d == 0) return detail::stored_extent(inner, 0);
    if (d == 1) return Result::tensor_type::extents[1];
    constexpr int dimensions = Result::rank - 2;
    std::array<Cut, dimensions> space;
    for (int s = 0; s < dimensions; ++s)
      space[static_cast<std::size_t>(s)] = {{0, detail::stored_extent(inner, 2 + s)}};
    const Plan& planned = plan_of<ModelType, Image::tensor_type::extents[1], plan>;
    const std::vector<LevelLayout> levels = layout_levels(planned, space, "1");
    const int level = planned.tensors[planned.prediction].level;
    return levels[static_cast<std::size_t>(level)].extent(spatial_dimensions - dimensions + d - 2);
  }
  Cut grid(int d) const { return this->field().cut(d); }

  Result compute() const {
    const Image image = detail::materialised<Image>(inner);
    if constexpr (plan == PlanKind::vjp) run->image = image, run->has_kept = true;
    auto& evaluation = run->network.template evaluation<plan>(image);
    evaluation.forward(detail::view_of(image), parameters.data());
    return Net::prediction(image, evaluation);
  }
};

namespace detail {

template <class ModelType, class T, class E, int Variable>
inline constexpr int channels_of<NetworkOutput<ModelType, T, E, Variable>> =
    NetworkOutput<ModelType, T, E, Variable>::Result::tensor_type::extents[1];
template <class ModelType, class T, class E, int Variable>
inline constexpr bool has_variable<NetworkOutput<ModelType, T, E, Variable>> = has_variable<E> || Variable >= 0;
template <class ModelType, class T, class E, int Variable>
inline constexpr const char* stage_text<NetworkOutput<ModelType, T, E, Variable>> = "network, see explain of the model";
template <class ModelType, class T, class E, int Variable>
struct stage_operand<NetworkOutput<ModelType, T, E, Variable>> {
  using type = typename NetworkOutput<ModelType, T, E, Variable>::Image;
};

/// Backward of a network, from the cotangent of its output in the type that it stores.
template <class ModelType, class T, class E, int Variable, class C, class All>
void pull_network(const NetworkOutput<ModelType, T, E, Variable>& node, const C& cotangent, All& gradients) {
  node.field();  // forward has run
  const auto& image = node.run->image;
  auto& evaluation = node.run->network.template evaluation<PlanKind::vjp>(image);
  if (std::exchange(node.run->has_kept, false))
    evaluation.rebind_input(view_of(image));  // other readers may have made its margin grow since
  else
    evaluation.forward(view_of(image), node.parameters.data());  // another region's backward has used its memory again
  const Parameters<ModelType, T, Partial<Sum>> share("halogen::gradient", sub_meshes(image).samples);
  run_vjp(evaluation, cotangent, share.data());
  if constexpr (Variable >= 0) add_parameters<Variable>(gradients, share);
  if constexpr (has_variable<E>)
    backward(node.inner, leaf(Network<ModelType, T>::input_gradient(image, evaluation)), gradients);
}

template <class ModelType, class T, class E, int Variable, class C, class All>
void pull(const NetworkOutput<ModelType, T, E, Variable>& node, const C& cotangent, All& gradients) {
  using Owed = field_of_t<FieldLeaf<C>, T>;
  const Owed owed = materialised<Owed>(leaf(cotangent));  // of the network's type where the loss is of another
  pull_network(node, owed, gradients);
}

}  // namespace detail

template <class ModelType, class T, Expression E>
  requires(E::placed::rank >= 3 && Fits<ModelType, detail::ImageFor<ModelType, T, E>>)
auto infer(const Parameters<ModelType, T>& parameters, const E& expression) {
  using Inner = expression_of<E>;
  return NetworkOutput<ModelType, T, Inner>(parameters, as_expression(expression));
}

template <class ModelType, class T, Expression E, class Why = WhyNot<ModelType, detail::ImageFor<ModelType, T, E>>>
  requires(E::placed::rank >= 3 && !Fits<ModelType, detail::ImageFor<ModelType, T, E>>)
void infer(const Parameters<ModelType, T>& parameters, const E& expression) = delete;

}  // namespace halogen
