// Losses, under torch.nn's names: of a prediction, a label and a weight field, a number and its gradient.
//
//   prediction: (N, C, H, W)  weight: (N, 1, H, W), the same for all channels  ->  a scalar, Replicate; or all
//   with depth (N, C, D, H, W), signals (N, C, W), vectors (N, C)
//   label: as the prediction; of CrossEntropy a class for each point, (N, 1, H, W) of integers, or a distribution over
//   classes; of CRPS (N, K, H, W) for a prediction of M * K channels
//
//   placements: all three alike (why::placements_differ); collectives: the sum of the weights, where there is a weight
//   field or labels are classes, then the loss: one all_reduce of a double each. Points and channels are summed in
//   double, tiles in order. What a loss divides by is summed over all ranks, so pieces may be uneven.
//
// LossReduction::mean divides by the sum of weights, or the number of points, and by the channels; sum by nothing;
// batch_mean by the number of samples. Errors: CollectiveError where weights do not sum to something positive, or a
// label is no class.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "halogen/core/number_text.hpp"
#include "halogen/kernels/training/loss.hpp"
#include "halogen/tensor/sharded.hpp"
#include "halogen/train/network.hpp"
#include "halogen/train/type_misfits.hpp"

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

/// A number of a loss, if it is within the limits; else CollectiveError.
inline double within(const char* name, double value, double low, double high, const char* wanted) {
  if (value >= low && value <= high) return value;
  throw CollectiveError(std::string(name) + " = " + number_text(value) + ": give " + wanted);
}
}  // namespace detail

/// loss(net(image), label, weight), not yet computed.
template <class Loss, class ModelType, class Image, class Label, class Weight>
struct NetworkLoss {
  Loss loss;
  Image image;
  Label label;
  Weight weight;
};

/// A loss is called on net(image) by hand, or handed to Trainer::step.
template <class Loss>
struct LossFunction {
  template <class ModelType, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight, compute_type<typename Image::value_type>, Loss>
  NetworkLoss<Loss, ModelType, Image, Label, Weight> operator()(AppliedNetwork<ModelType, Image> prediction,
                                                                const Label& label,
                                                                const Weight& weight = no_weight) const {
    return {static_cast<const Loss&>(*this), prediction.image, label, weight};
  }
  template <class ModelType, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight, compute_type<typename Image::value_type>, Loss>>
    requires(!Fits<ModelType, Image, Label, Weight, compute_type<typename Image::value_type>, Loss>)
  void operator()(AppliedNetwork<ModelType, Image> prediction, const Label& label,
                  const Weight& weight = no_weight) const = delete;
  /// Of a stored prediction: evaluate(loss, prediction, label, weight).
  template <class Of, class M, class... P, class Label, class Weight = NoWeight>
  double operator()(const Sharded<Of, M, P...>& prediction, const Label& label,
                    const Weight& weight = no_weight) const {
    return evaluate(static_cast<const Loss&>(*this), prediction, label, weight);  // of train/evaluate_loss.hpp
  }
  template <detail::NoNetwork E, class Label, class Weight = NoWeight, class Why = why::expression_is_no_field>
  void operator()(const E& prediction, const Label& label,  // write mean(square(net(u + 1) - label))
                  const Weight& weight = no_weight) const = delete;
};

/// A loss times a number: 0.1 * hg::l1.
template <class Loss>
struct ScaledLoss : LossFunction<ScaledLoss<Loss>> {
  static constexpr bool takes_classes = detail::takes_classes<Loss>;
  template <class Label>
  static constexpr int label_channels(int channels) {
    return detail::label_channels<Loss, Label>(channels);
  }

  double factor;
  Loss loss;
  LossReduction reduction;

  ScaledLoss(double by, const Loss& of) : factor(by), loss(of), reduction(detail::reduction_of(of)) {
    detail::within("a factor of a loss", factor, -1e300, 1e300, "a finite number");
  }
  template <class Label>
  auto kernel(int channels) const {
    return detail::kernel_of<Label>(loss, channels);
  }
};
template <class Loss>
ScaledLoss<Loss> operator*(double factor, const LossFunction<Loss>& loss) {
  return {factor, static_cast<const Loss&>(loss)};
}
template <class Loss>
ScaledLoss<Loss> operator*(double factor, const ScaledLoss<Loss>& scaled) {
  return {factor * scaled.factor, scaled.loss};
}

/// The sum of a loss for each output of a model: trainer.step(hg::Losses{hg::mse, 0.1 * hg::cross_entropy}, x,
/// hg::Labels{y, kind}). One loss alone is that of all outputs.
template <class... Each>
struct Losses : LossFunction<Losses<Each...>>, detail::ByOutput<Each...> {
  explicit Losses(const Each&... losses) : detail::ByOutput<Each...>{{losses...}} {}
};

/// What the losses of one number alone are given.
struct LossOptions {
  LossReduction reduction{};
};

/// Mean squared error, as torch.nn.MSELoss.
struct MeanSquaredError : LossFunction<MeanSquaredError>, LossOptions {
  using pointwise = kernels::SquaredError;
  constexpr MeanSquaredError(LossOptions options = {}) : LossOptions(options) {}
};
inline constexpr MeanSquaredError mse{};

/// Mean absolute error, as torch.nn.L1Loss.
struct MeanAbsoluteError : LossFunction<MeanAbsoluteError>, LossOptions {
  using pointwise = kernels::AbsoluteError;
  constexpr MeanAbsoluteError(LossOptions options = {}) : LossOptions(options) {}
};
inline constexpr MeanAbsoluteError l1{};

/// As torch.nn.HuberLoss: squared where prediction and label are closer than delta, absolute elsewhere.
struct HuberOptions {
  double delta = 1;
  LossReduction reduction{};
};
struct HuberLoss : LossFunction<HuberLoss>, HuberOptions {
  constexpr HuberLoss(HuberOptions options = {}) : HuberOptions(options) {}
  template <class Label>
  kernels::HuberError kernel(int) const {
    return {detail::within("HuberLoss: delta", delta, 1e-300, 1e300, "more than 0"), 1};
  }
};
inline constexpr HuberLoss huber{};

/// As torch.nn.SmoothL1Loss: Huber's loss by beta.
struct SmoothL1Options {
  double beta = 1;
  LossReduction reduction{};
};
struct SmoothL1Loss : LossFunction<SmoothL1Loss>, SmoothL1Options {
  constexpr SmoothL1Loss(SmoothL1Options options = {}) : SmoothL1Options(options) {}
  template <class Label>
  kernels::HuberError kernel(int) const {
    detail::within("SmoothL1Loss: beta", beta, 1e-300, 1e300, "more than 0, or take l1");
    return {beta, 1 / beta};
  }
};
inline constexpr SmoothL1Loss smooth_l1{};

/// As torch.nn.BCEWithLogitsLoss: the prediction is a logit, the label a probability, channel by channel; pos_weight
/// weighs positives, in all channels alike.
struct BinaryCrossEntropyOptions {
  double pos_weight = 1;
  LossReduction reduction{};
};
struct BinaryCrossEntropyWithLogits : LossFunction<BinaryCrossEntropyWithLogits>, BinaryCrossEntropyOptions {
  constexpr BinaryCrossEntropyWithLogits(BinaryCrossEntropyOptions options = {}) : BinaryCrossEntropyOptions(options) {}
  template <class Label>
  kernels::CrossEntropyOfLogit kernel(int) const {
    return {detail::within("BinaryCrossEntropyWithLogits: pos_weight", pos_weight, 0, 1e300, "0 or more")};
  }
};
inline constexpr BinaryCrossEntropyWithLogits bce_with_logits{};

/// As torch.nn.KLDivLoss: the prediction is the logarithm of a probability, the label a probability. PyTorch advises
/// its 'batchmean': LossReduction::batch_mean.
struct KLDivergence : LossFunction<KLDivergence>, LossOptions {
  using pointwise = kernels::KullbackLeibler;
  constexpr KLDivergence(LossOptions options = {}) : LossOptions(options) {}
};
inline constexpr KLDivergence kl_div{};

/// The pinball loss, least where the prediction is the label's q-quantile (Koenker and Bassett, Econometrica 46, 1978).
struct QuantileOptions {
  double q = 0.5;
  LossReduction reduction{};
};
struct QuantileLoss : LossFunction<QuantileLoss>, QuantileOptions {
  constexpr QuantileLoss(QuantileOptions options = {}) : QuantileOptions(options) {}
  template <class Label>
  kernels::PinballError kernel(int) const {
    return {detail::within("QuantileLoss: q", q, 0, 1, "a number from 0 to 1")};
  }
};

/// As torch.nn.PoissonNLLLoss, of counts: the prediction is the logarithm of their mean or, without log_input, the
/// mean.
struct PoissonNLLOptions {
  bool log_input = true, full = false;
  double eps = 1e-8;
  LossReduction reduction{};
};
struct PoissonNLLLoss : LossFunction<PoissonNLLLoss>, PoissonNLLOptions {
  constexpr PoissonNLLLoss(PoissonNLLOptions options = {}) : PoissonNLLOptions(options) {}
  template <class Label>
  kernels::PoissonLikelihood kernel(int) const {
    return {log_input, full, detail::within("PoissonNLLLoss: eps", eps, 0, 1e300, "0 or more")};
  }
};
inline constexpr PoissonNLLLoss poisson_nll{};

/// As torch.nn.GaussianNLLLoss: the label has K channels, the prediction 2 K, first the means and then the variances.
/// Variances below eps, negative ones too, count as eps. Divides by points and K.
struct GaussianNLLOptions {
  bool full = false;
  double eps = 1e-6;
  LossReduction reduction{};
};
struct GaussianNLLLoss : LossFunction<GaussianNLLLoss>, GaussianNLLOptions {
  constexpr GaussianNLLLoss(GaussianNLLOptions options = {}) : GaussianNLLOptions(options) {}
  template <class Label>
  static constexpr int label_channels(int channels) {
    return channels / 2;
  }
  template <class Label>
  kernels::NormalLikelihood kernel(int channels) const {
    if (channels % 2 != 0)
      throw CollectiveError("GaussianNLLLoss: a prediction of " + std::to_string(channels) +
                            " channels has not as many variances as means: give it an even number");
    return {channels / 2, full, detail::within("GaussianNLLLoss: eps", eps, 1e-300, 1e300, "more than 0")};
  }
};
inline constexpr GaussianNLLLoss gaussian_nll{};

/// Weights of classes on the device, for CrossEntropy and NLLLoss. Throws CollectiveError for one that is negative or
/// not finite.
inline Kokkos::View<const double*, memory_space> class_weights(const std::vector<double>& weights) {
  for (const double weight : weights)
    detail::within("class_weights: a weight", weight, 0, 1e300, "finite numbers of 0 or more");
  detail::require_environment();
  Kokkos::View<double*, memory_space> on_device("halogen::class_weights", weights.size());
  copy_to_view(on_device, weights);
  return on_device;
}

namespace detail {
inline kernels::ClassWeights class_weights_for(const char* loss,
                                               const Kokkos::View<const double*, memory_space>& weight, int channels) {
  if (weight.size() != 0 && weight.size() != static_cast<std::size_t>(channels))
    throw CollectiveError(std::string(loss) + ": " + std::to_string(weight.size()) +
                          " weights of classes, but the prediction has " + std::to_string(channels) +
                          " channels: give one for each");
  return {weight.size() == 0 ? nullptr : weight.data()};
}
}  // namespace detail

/// As torch.nn.CrossEntropyLoss: the channels of the prediction are scores of classes. The label is a class for each
/// point, or a distribution over them. Labels of ignore_index count nothing. The mean divides by the sum of the
/// weights of the labels' classes, as PyTorch's; with distributions by the number of points.
///
///   hg::CrossEntropy({.weight = hg::class_weights({1, 2, 0.5}), .label_smoothing = 0.1})
struct CrossEntropyOptions {
  Kokkos::View<const double*, memory_space> weight{};
  index_t ignore_index = -100;
  double label_smoothing = 0;
  LossReduction reduction{};
};
struct CrossEntropy : LossFunction<CrossEntropy>, CrossEntropyOptions {
  static constexpr bool takes_classes = true;
  CrossEntropy(CrossEntropyOptions options = {}) : CrossEntropyOptions(std::move(options)) {}
  template <class Label>
  static constexpr int label_channels(int channels) {
    return detail::holds_indices<Label> ? 1 : channels;
  }
  template <class Label>
  auto kernel(int channels) const {
    const kernels::ClassWeights classes = detail::class_weights_for("CrossEntropy", weight, channels);
    detail::within("CrossEntropy: label_smoothing", label_smoothing, 0, 1, "a number from 0 to 1");
    if constexpr (detail::holds_indices<Label>)
      return kernels::CrossEntropyOfClass{{classes, ignore_index}, label_smoothing};
    else
      return kernels::CrossEntropyOfDistribution{classes, label_smoothing};
  }
};
inline const CrossEntropy cross_entropy{};

/// As torch.nn.NLLLoss: the channels of the prediction are logarithms of the probabilities of classes, the label is a
/// class for each point. The mean divides as CrossEntropy's.
struct NLLOptions {
  Kokkos::View<const double*, memory_space> weight{};
  index_t ignore_index = -100;
  LossReduction reduction{};
};
struct NLLLoss : LossFunction<NLLLoss>, NLLOptions {
  static constexpr bool takes_classes = true;
  NLLLoss(NLLOptions options = {}) : NLLOptions(std::move(options)) {}
  template <class Label>
  static constexpr int label_channels(int) {
    return 1;
  }
  template <class Label>
  kernels::LikelihoodOfClass kernel(int channels) const {
    static_assert(detail::holds_indices<Label>, "NLLLoss: the label is a class, of std::int32_t or std::int64_t");
    return {{detail::class_weights_for("NLLLoss", weight, channels), ignore_index}};
  }
};
inline const NLLLoss nll{};

/// The continuous ranked probability score of an ensemble (Gneiting and Raftery, JASA 102, 2007): the label has K
/// channels, the prediction M * K, member m of channel k in m * K + k. `fair`: without the bias of a small ensemble
/// (Ferro, QJRMS 140, 2014). Divides by points and K.
struct CRPSOptions {
  bool fair = false;
  LossReduction reduction{};
};
struct CRPS : LossFunction<CRPS>, CRPSOptions {
  constexpr CRPS(CRPSOptions options = {}) : CRPSOptions(options) {}
  template <class Label>
  static constexpr int label_channels(int channels) {
    constexpr int values = Label::tensor_type::extents[1];
    return values > 0 && channels % values == 0 ? values : channels;
  }
  template <class Label>
  kernels::RankedProbabilityScore kernel(int channels) const {
    constexpr int values = Label::tensor_type::extents[1];
    if (fair && channels == values)
      throw CollectiveError("CRPS: fair, of an ensemble of one member: give two or more, or fair = false");
    return {values, fair};
  }
};
inline constexpr CRPS crps{};

}  // namespace halogen
