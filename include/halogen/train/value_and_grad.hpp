// value_and_grad (autograd/value_and_grad.hpp) of a network with respect to its parameters, or of an expression with
// respect to fields and to the parameters of networks in it.
#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include "halogen/autograd/value_and_grad.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network_gradients.hpp"

namespace halogen {

/// net(image): what losses like mse take, and an expression.
template <class ModelType, class Image, class Node>
struct NetworkCall : AppliedNetwork<ModelType, Image>, Node {
  NetworkCall(const Image& image, const Node& node) : AppliedNetwork<ModelType, Image>{image}, Node(node) {}
};
template <class ModelType, class Image, class Node>
auto as_expression(const NetworkCall<ModelType, Image, Node>& call) {
  return detail::zero_bounded(static_cast<const Node&>(call));
}

/// The same of a model that returns several: auto [height, kind] = net(image), or hg::Losses{...}(net(image), labels).
template <class ModelType, class Image, class... Outputs>
struct NetworkCalls : AppliedNetwork<ModelType, Image>, std::tuple<Outputs...> {
  NetworkCalls(const Image& image, const std::tuple<Outputs...>& outputs)
      : AppliedNetwork<ModelType, Image>{image}, std::tuple<Outputs...>(outputs) {}
};

/// Parameters, of T, as the Index-th variable: net(image) is given to a loss, or stands in an expression as net(x) of
/// an expression does. Those of a sharded optimiser (P Shard<0>) are for losses alone.
template <class ModelType, class T, class P = Replicate, int Index = 0>
struct NetworkVariable {
  const Parameters<ModelType, T, P>& parameters;
  detail::CalledNetworks& networks;

  template <class Image>
    requires(detail::is_given<Image> && Fits<ModelType, Image, NoWeight, NoWeight, T>)
  auto operator()(const Image& image) const {
    if constexpr (!std::is_same_v<P, Replicate> || !std::is_same_v<compute_type<typename Image::value_type>, T>)
      return AppliedNetwork<ModelType, Image>{image};
    else if constexpr (detail::given<Image>::count == 1)
      return call(image, image);
    else
      return std::apply(
          [&](const auto&... more) { return call(image, static_cast<const detail::FirstOf<Image>&>(image), more...); },
          image.more);
  }
  template <class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
    requires(detail::is_given<Image> && !Fits<ModelType, Image, NoWeight, NoWeight, T>)
  void operator()(const Image& image) const = delete;

  /// An expression; for a model of several inputs a field or an expression for each of them.
  template <FieldOperand First, FieldOperand... More>
    requires(Expression<First> || sizeof...(More) > 0)
  auto operator()(const First& first, const More&... more) const {
    if constexpr (is_sharded<First> && (is_sharded<More> && ...)) {
      return (*this)(Inputs{first, more...});
    } else {
      using Image = detail::ImageOf<ModelType, T, First, More...>;
      static_assert(std::is_same_v<P, Replicate>, "sharded parameters are for losses: mse(net(x), label)");
      if constexpr (Fits<ModelType, Image>)
        return node(first, more...);
      else
        detail::refused<WhyNot<ModelType, Image>>();
    }
  }

 private:
  template <class X, class... More>
  using NodeOf = detail::NetworkNodeOf<ModelType, T, Index, expression_of<X>, expression_of<More>...>;
  /// An expression, or a tuple of those for each output.
  template <class X, class... More>
  auto node(const X& x, const More&... more) const {
    const NodeOf<X, More...> node(parameters, networks.next<typename NodeOf<X, More...>::Run>(), as_expression(x),
                                  as_expression(more)...);
    if constexpr (Parameters<ModelType, T>::graph().draws) node.run->random = networks.random();
    node.run->keeps_statistics = networks.keeps_statistics;
    if constexpr (outputs_of<ModelType> == 1)
      return node;
    else
      return detail::outputs_apart(node);
  }
  template <class Image, class X, class... More>
  auto call(const Image& image, const X& x, const More&... more) const {
    return called(image, node(x, more...));
  }
  template <class Image, class Node>
  static NetworkCall<ModelType, Image, Node> called(const Image& image, const Node& node) {
    return {image, node};
  }
  template <class Image, class... Outputs>
  static NetworkCalls<ModelType, Image, Outputs...> called(const Image& image, const std::tuple<Outputs...>& outputs) {
    return {image, outputs};
  }
};

namespace detail {

template <>
struct WithNetworks<true> {
  template <int Index, class ModelType, class T, class P>
  static NetworkVariable<ModelType, T, P, Index> variable(CalledNetworks& networks,
                                                          const Parameters<ModelType, T, P>& parameters) {
    return {parameters, networks};
  }
  template <int Index, class Field>
    requires is_sharded<Field>
  static VariableLeaf<Index, Field> variable(CalledNetworks&, const Field& field) {
    return VariableLeaf<Index, Field>(field);
  }

  /// Of any expression: one forward pass, and one backward, of each network.
  template <FieldOperand E, class... Arguments>
  static auto of(CalledNetworks&, const E& expression, const Arguments&... arguments) {
    const auto loss = as_expression(expression);
    static_assert(std::is_same_v<typename std::decay_t<decltype(loss)>::placed, NotPlaced>,
                  "gradient_needs_a_scalar: return a sum(...), a mean(...) or another number made of reductions");
    check_variables<static_cast<int>(sizeof...(Arguments))>(loss);
    NetworkGradients<Arguments...> gradients(arguments...);
    detail::backward(loss, Constant<double>(1), static_cast<GradientSink&>(gradients));
    return std::tuple_cat(std::tuple(static_cast<double>(loss.item())), gradients.finish());
  }

  /// Of a loss such as mse of one network.
  template <class Loss, class ModelType, class Image, class Label, class Weight, class T, class P>
  static auto of(CalledNetworks& networks, const NetworkLoss<Loss, ModelType, Image, Label, Weight>& loss,
                 const Parameters<ModelType, T, P>& parameters) {
    using Net = Network<ModelType, T, P>;
    const auto network = [&] {
      return networks.of_loss.template get<Net>(0, [&] { return std::make_shared<Net>(parameters); });
    };
    if (!network()->serves(parameters)) networks.of_loss.clear();
    auto& evaluation = network()->template evaluation<PlanKind::training>(loss.image, "value_and_grad");
    const auto gradient = gradient_of(parameters, loss.image);
    if constexpr (Parameters<ModelType, T>::graph().draws) evaluation.set_random(networks.random());
    detail::run_training(evaluation, loss.loss, parameters.data(), gradient.data(), loss.image, loss.label,
                         loss.weight);
    return std::pair{evaluation.loss(), gradient};
  }

 private:
  template <class ModelType, class T, class Image>
  static Parameters<ModelType, T, Partial<Sum>> gradient_of(const Parameters<ModelType, T>&, const Image& image) {
    return Parameters<ModelType, T, Partial<Sum>>("halogen::gradient", detail::sub_meshes(image).samples);
  }
  template <class ModelType, class T, class Image>
  static Parameters<ModelType, T, Shard<0>> gradient_of(const Parameters<ModelType, T, Shard<0>>& parameters,
                                                        const Image&) {
    return parameters.zeros("halogen::gradient");
  }
};

}  // namespace detail

}  // namespace halogen

template <class ModelType, class Image, class... Outputs>
struct std::tuple_size<halogen::NetworkCalls<ModelType, Image, Outputs...>>
    : std::integral_constant<std::size_t, sizeof...(Outputs)> {};
template <std::size_t I, class ModelType, class Image, class... Outputs>
struct std::tuple_element<I, halogen::NetworkCalls<ModelType, Image, Outputs...>>
    : std::tuple_element<I, std::tuple<Outputs...>> {};
