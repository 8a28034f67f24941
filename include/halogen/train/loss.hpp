// Losses: sum of w * loss(p, y) / sum of w over all points and channels, as torch.nn.functional.mse_loss(weight=).
//
//   prediction, label: (N, C, H, W)  weight: (N, 1, H, W), the same for all channels  ->  a scalar, Replicate; or all
//   with depth, (N, C, D, H, W) placements: all three alike (why::placements_differ); collectives: the sum of the
//   weights, then the loss, one all_reduce of a double each. gradient = w * loss'(p, y) / sum of w. Accumulation:
//   points in double, tiles in order; the mean divides by the global sum of weights.
#pragma once

#include "halogen/kernels/loss.hpp"
#include "halogen/train/fit.hpp"

namespace halogen {

/// net(image) inside value_and_grad: nothing is computed until the loss is known.
template <class ModelType, class Image>
struct AppliedNetwork {
  Image image;
};

namespace detail {
template <class ModelType, class Image>
void applied_network(const AppliedNetwork<ModelType, Image>&);
/// An expression that is not net(image) of a field.
template <class X>
concept NoNetwork = Unstored<X> && !requires(const X& x) { applied_network(x); };
}  // namespace detail

/// loss(net(image), label, weight), not yet computed.
template <class Loss, class ModelType, class Image, class Label, class Weight>
struct NetworkLoss {
  Image image;
  const Label& label;
  const Weight& weight;
};

/// A loss is called on net(image) by hand, or handed to Trainer::step.
template <class Loss>
struct LossFunction {
  template <class ModelType, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight>
  NetworkLoss<Loss, ModelType, Image, Label, Weight> operator()(AppliedNetwork<ModelType, Image> prediction,
                                                                const Label& label,
                                                                const Weight& weight = no_weight) const {
    return {prediction.image, label, weight};
  }
  template <class ModelType, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight>>
    requires(!Fits<ModelType, Image, Label, Weight>)
  void operator()(AppliedNetwork<ModelType, Image> prediction, const Label& label,
                  const Weight& weight = no_weight) const = delete;
  template <detail::NoNetwork E, class Label, class Weight = NoWeight, class Why = why::expression_is_no_field>
  void operator()(const E& prediction, const Label& label,  // write mean(square(net(u + 1) - label))
                  const Weight& weight = no_weight) const = delete;
};

/// Mean squared error.
struct MeanSquaredError : LossFunction<MeanSquaredError> {
  using pointwise = kernels::SquaredError;
};
inline constexpr MeanSquaredError mse{};

/// Mean absolute error, as torch.nn.L1Loss.
struct MeanAbsoluteError : LossFunction<MeanAbsoluteError> {
  using pointwise = kernels::AbsoluteError;
};
inline constexpr MeanAbsoluteError l1{};

/// As torch.nn.HuberLoss with its delta of 1: squared where prediction and label are close, absolute elsewhere.
struct HuberLoss : LossFunction<HuberLoss> {
  using pointwise = kernels::HuberError;
};
inline constexpr HuberLoss huber{};

/// As torch.nn.BCEWithLogitsLoss: the prediction is a logit, the label a probability, channel by channel.
struct BinaryCrossEntropyWithLogits : LossFunction<BinaryCrossEntropyWithLogits> {
  using pointwise = kernels::CrossEntropyOfLogit;
};
inline constexpr BinaryCrossEntropyWithLogits bce_with_logits{};

}  // namespace halogen
