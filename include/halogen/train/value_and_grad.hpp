// value_and_grad: a loss and its gradient, of a network with respect to its parameters, or of an expression with
// respect to fields and to the parameters of networks in it.
#pragma once

#include <any>
#include <memory>
#include <tuple>
#include <utility>

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

namespace detail {

template <class X>
inline constexpr bool is_parameters = false;
template <class ModelType, class T, class P>
inline constexpr bool is_parameters<Parameters<ModelType, T, P>> = true;

/// To the next step, or to the one given.
struct SetStep {
  index_t* step;
  index_t number;
  KOKKOS_FUNCTION void operator()(const index_t) const { *step = number < 0 ? *step + 1 : number; }
};

/// The networks of an expression with their plans and memory, in the order in which it calls them: kept from step to
/// step.
struct CalledNetworks {
  std::vector<std::any> runs;
  std::size_t called = 0;
  std::uint64_t seed = 0;
  Lasting<Kokkos::View<index_t[1], memory_space>> step;  ///< that layers draw by; allocated when a network draws

  /// For the network that is called next.
  RandomStream random() {
    if (step.data() == nullptr) set_step(0);
    return {seed, step.data(), static_cast<std::uint32_t>(called)};
  }
  void set_step(index_t number) {
    if (step.data() == nullptr) step = Lasting<Kokkos::View<index_t[1], memory_space>>("halogen::random_step");
    launch_range(execution_space{}, "halogen::random_step", 1, SetStep{step.data(), number});
  }
  /// Behind all that draws.
  void next_step() {
    if (step.data() != nullptr) launch_range(execution_space{}, "halogen::random_step", 1, SetStep{step.data(), -1});
  }

  template <class Run>
  std::shared_ptr<Run> next() {
    if (called == runs.size()) runs.emplace_back();
    std::any& kept = runs[called++];
    if (std::any_cast<std::shared_ptr<Run>>(&kept) == nullptr) kept = std::make_shared<Run>();
    return std::any_cast<std::shared_ptr<Run>&>(kept);
  }
};

}  // namespace detail

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

/// Made by value_and_grad. Keep it from step to step: it keeps its plan and its arena.
template <class F>
class ValueAndGrad {
 public:
  explicit ValueAndGrad(F f, std::uint64_t seed = 0) : f_(std::move(f)) { called_.seed = seed; }

  /// Layers that drop values draw by the seed and the number of the step, from 0, which each call makes one more.
  void set_step(index_t step) { called_.set_step(step); }

  /// (loss, gradient). The gradient of Replicate parameters is Partial; redistribute<Replicate>(gradient) makes it
  /// whole by one all_reduce. That of Shard<0> parameters is Shard<0>, summed. Collective over the image's mesh.
  /// Of an expression in which net(x) stands: a tuple (value, gradient).
  template <class ModelType, class T, class P>
  auto operator()(const Parameters<ModelType, T, P>& parameters) {
    const detail::EvaluationScope scope;
    called_.called = 0;
    const auto result = run(f_(variable<0>(parameters)), parameters);
    called_.next_step();
    return result;
  }

  /// (value, gradient...) of an expression of several networks, and of fields, each gradient as above.
  template <class... Arguments>
    requires(sizeof...(Arguments) > 1 && (detail::is_parameters<Arguments> || ...) &&
             ((detail::is_parameters<Arguments> || is_sharded<Arguments>)&&...))
  auto operator()(const Arguments&... arguments) {
    const detail::EvaluationScope scope;
    called_.called = 0;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto result = run(f_(variable<static_cast<int>(I)>(arguments)...), arguments...);
      called_.next_step();
      return result;
    }(std::index_sequence_for<Arguments...>{});
  }

  /// (value, gradient...) of a sum or mean of an expression, one gradient per field, placed as the field.
  template <class... Fields>
    requires(is_sharded<Fields> && ...)
  auto operator()(const Fields&... fields) {
    return value_and_grad_of(f_, fields...);
  }

 private:
  template <int Index, class ModelType, class T, class P>
  NetworkVariable<ModelType, T, P, Index> variable(const Parameters<ModelType, T, P>& parameters) {
    return {parameters, called_};
  }
  template <int Index, class Field>
    requires is_sharded<Field>
  static VariableLeaf<Index, Field> variable(const Field& field) {
    return VariableLeaf<Index, Field>(field);
  }

  /// One forward pass, and one backward, of each network.
  template <FieldOperand E, class... Arguments>
  static auto run(const E& expression, const Arguments&... arguments) {
    const auto loss = as_expression(expression);
    static_assert(std::is_same_v<typename std::decay_t<decltype(loss)>::placed, NotPlaced>,
                  "gradient_needs_a_scalar: return a sum(...), a mean(...) or another number made of reductions");
    detail::NetworkGradients<Arguments...> gradients(arguments...);
    detail::backward(loss, Constant<double>(1), static_cast<detail::GradientSink&>(gradients));
    return std::tuple_cat(std::tuple(static_cast<double>(loss.item())), gradients.finish());
  }

  template <class Loss, class ModelType, class Image, class Label, class Weight, class T, class P>
  auto run(const NetworkLoss<Loss, ModelType, Image, Label, Weight>& loss,
           const Parameters<ModelType, T, P>& parameters) {
    using Kept = std::shared_ptr<Network<ModelType, T, P>>;
    const auto* kept = std::any_cast<Kept>(&network_);
    if (kept == nullptr || !(*kept)->serves(parameters))
      network_ = std::make_shared<Network<ModelType, T, P>>(parameters);
    auto& evaluation =
        std::any_cast<Kept&>(network_)->template evaluation<PlanKind::training>(loss.image, "value_and_grad");
    const auto gradient = gradient_of(parameters, loss.image);
    if constexpr (Parameters<ModelType, T>::graph().draws) evaluation.set_random(called_.random());
    detail::run_training(evaluation, loss.loss, parameters.data(), gradient.data(), loss.image, loss.label,
                         loss.weight);
    return std::pair{evaluation.loss(), gradient};
  }

  template <class ModelType, class T, class Image>
  static Parameters<ModelType, T, Partial<Sum>> gradient_of(const Parameters<ModelType, T>&, const Image& image) {
    return Parameters<ModelType, T, Partial<Sum>>("halogen::gradient", detail::sub_meshes(image).samples);
  }
  template <class ModelType, class T, class Image>
  static Parameters<ModelType, T, Shard<0>> gradient_of(const Parameters<ModelType, T, Shard<0>>& parameters,
                                                        const Image&) {
    return parameters.zeros("halogen::gradient");
  }

  F f_;
  std::any network_;
  detail::CalledNetworks called_;
};

/// f takes a network variable and returns a loss of it:
///
///   auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });
///   auto [loss, gradient] = step(parameters);
///   state.step(parameters, hg::redistribute<hg::Replicate>(gradient));
///
/// Or any expression of it:
///
///   auto step = hg::value_and_grad([&](auto net) { return hg::mean(w * hg::square(net(x) - y)) +
///   hg::mean(hg::abs(net(x0))); }); auto [loss, gradient] = step(parameters);
///
/// seed: of what layers draw in each call (layers/dropout.hpp).
template <class F>
ValueAndGrad<F> value_and_grad(F f, std::uint64_t seed = 0) {
  return ValueAndGrad<F>(std::move(f), seed);
}

}  // namespace halogen

template <class ModelType, class Image, class... Outputs>
struct std::tuple_size<halogen::NetworkCalls<ModelType, Image, Outputs...>>
    : std::integral_constant<std::size_t, sizeof...(Outputs)> {};
template <std::size_t I, class ModelType, class Image, class... Outputs>
struct std::tuple_element<I, halogen::NetworkCalls<ModelType, Image, Outputs...>>
    : std::tuple_element<I, std::tuple<Outputs...>> {};
