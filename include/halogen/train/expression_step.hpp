// Forward and backward of a network whose loss is an expression of its predictions.
#pragma once

#include <tuple>
#include <type_traits>

#include "halogen/autograd/gradient.hpp"
#include "halogen/train/expression_loss.hpp"
#include "halogen/train/network.hpp"

namespace halogen::detail {

/// f of its predictions, with label and weight as they were given.
template <class F, class Label, class Weight, class... Predictions>
auto loss_expression(const ExpressionLoss<F>& loss, const Label& label, const Weight& weight,
                     const Predictions&... predictions) {
  if constexpr (std::is_same_v<Weight, NoWeight>)
    return loss.f(predictions..., label);
  else
    return loss.f(predictions..., label, weight);
}

/// Forward, the loss and its gradient by the predictions, backward; returns the loss. Net: the network that the
/// evaluation, of a vjp plan, belongs to.
template <class Net, class E, class F, class T, class Image, class Label, class Weight>
double run_expression_loss(E& evaluation, const ExpressionLoss<F>& loss, T* parameters, T* gradient, const Image& image,
                           const Label& label, const Weight& weight) {
  evaluation.keep_statistics();
  evaluation.forward(views_of(image), parameters);
  const auto differentiate = [&](const auto&... predictions) {
    auto f = [&](const auto&... variables) { return loss_expression(loss, label, weight, variables...); };
    return std::apply(
        [&](double value, const auto&... cotangents) {
          run_vjp(evaluation, gradient, cotangents...);
          return value;
        },
        value_and_gradients<false>(f, predictions...));  // a loss need not read all outputs
  };
  const auto predictions = Net::prediction(image, evaluation);
  if constexpr (E::outputs == 1)
    return differentiate(predictions);
  else
    return std::apply(differentiate, predictions);
}

}  // namespace halogen::detail
