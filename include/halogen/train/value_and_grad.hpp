// value_and_grad: a loss and its gradient, of a network with respect to its parameters, or of an expression with
// respect to fields.
#pragma once

#include <any>
#include <memory>
#include <utility>

#include "halogen/autograd/gradient.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"

namespace halogen {

/// The parameters, of T, as a variable: net(image) has the model's type and the image's.
template <class ModelType, class T>
struct NetworkVariable {
  template <class Image>
    requires Fits<ModelType, Image, NoWeight, NoWeight, T>
  AppliedNetwork<ModelType, Image> operator()(const Image& image) const {
    return {image};
  }
  template <class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
    requires(!Fits<ModelType, Image, NoWeight, NoWeight, T>)
  void operator()(const Image& image) const = delete;
};

/// Made by value_and_grad. Keep it from step to step: it keeps its plan and its arena.
template <class F>
class ValueAndGrad {
 public:
  explicit ValueAndGrad(F f) : f_(std::move(f)) {}

  /// (loss, gradient). The gradient of Replicate parameters is Partial; redistribute<Replicate>(gradient) makes it
  /// whole by one all_reduce. That of Shard<0> parameters is Shard<0>, summed. Collective over the image's mesh.
  template <class ModelType, class T, class P>
  auto operator()(const Parameters<ModelType, T, P>& parameters) {
    return run(f_(NetworkVariable<ModelType, T>{}), parameters);
  }

  /// (value, gradient...) of a sum or mean of an expression, one gradient per field, placed as the field.
  template <class... Fields>
    requires(is_sharded<Fields> && ...)
  auto operator()(const Fields&... fields) {
    return value_and_grad_of(f_, fields...);
  }

 private:
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
    detail::run_training<Loss>(evaluation, parameters.data(), gradient.data(), loss.image, loss.label, loss.weight);
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
};

/// f takes a network variable and returns a loss of it:
///
///   auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });
///   auto [loss, gradient] = step(parameters);
///   state.step(parameters, hg::redistribute<hg::Replicate>(gradient));
template <class F>
ValueAndGrad<F> value_and_grad(F f) {
  return ValueAndGrad<F>(std::move(f));
}

}  // namespace halogen
