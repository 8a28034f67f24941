// expression_loss(f): a loss of any form in the array language, where losses are taken: Trainer::step and accumulate,
// fit, evaluate.
//
//   trainer.step(hg::expression_loss([](const auto& p, const auto& y) { return hg::dice(hg::sigmoid(p), y); }), x, y);
//
//   f(predictions..., label) or f(predictions..., label, weight), as given to step -> a number: a mean, a sum, or what
//   is made of such. Predictions are fields, placed as the image; of a model of several outputs all of them, in their
//   order. label and weight are passed on as they are: of any channels, placement and value type that f can read.
//
// Forward once, then f and its gradient by the predictions, then backward. Collectives: those of f and its gradient,
// and of the model's layers. The gradient is exact as f is written: a mean counts over all ranks. Not captured on a
// device.
#pragma once

#include <utility>

namespace halogen {

/// Made by expression_loss.
template <class F>
struct ExpressionLoss {
  F f;
};
template <class F>
ExpressionLoss<F> expression_loss(F f) {
  return {std::move(f)};
}

namespace detail {
template <class Loss>
inline constexpr bool is_expression_loss = false;
template <class F>
inline constexpr bool is_expression_loss<ExpressionLoss<F>> = true;
}  // namespace detail

}  // namespace halogen
