// The gradient of one batch: forward and backward of a trainer's network, and the memory in which the gradient lies.
#pragma once

#include <memory>
#include <optional>

#include "halogen/train/expression_step.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"

namespace halogen::detail {

/// One network and one gradient, whose memory all batches use. Parameters and gradient are those of ModelType: Held are
/// placed as P, the gradient as gradients of such parameters are.
template <class ModelType, class T, Placement P>
class BatchGradient {
 public:
  using Net = Network<ModelType, T, P>;
  using Held = Parameters<ModelType, T, P>;
  using Gradient = Parameters<ModelType, T, gradient_placement_t<P>>;
  /// The plan that differentiates such a loss.
  template <class Loss>
  static constexpr PlanKind plan = is_expression_loss<Loss> ? PlanKind::vjp : PlanKind::training;

  explicit BatchGradient(const Held& parameters) : network_(std::make_unique<Net>(parameters)) {}

  Net& network() { return *network_; }
  const Net& network() const { return *network_; }

  /// Forward and backward of an evaluation that the network has bound to the image. Afterwards of(parameters, image)
  /// holds the gradient.
  template <class Loss, class E, class Image, class Label, class Weight>
  void compute(E& evaluation, const Loss& loss, Held& parameters, const Image& image, const Label& label,
               const Weight& weight) {
    T* const gradient = of(parameters, image).data();
    if constexpr (is_expression_loss<Loss>)
      expression_value_ = run_expression_loss<Net>(evaluation, loss, parameters.data(), gradient, image, label, weight);
    else
      run_training(evaluation, loss, parameters.data(), gradient, image, label, weight);
  }

  /// The loss of the last batch. Waits for the device.
  template <class Loss>
  double loss_value(auto& evaluation) const {
    if constexpr (is_expression_loss<Loss>)
      return expression_value_;
    else
      return evaluation.loss();
  }
  /// The loss of the last batch with an expression loss.
  double expression_value() const { return expression_value_; }

  /// What the last batch counts in a mean over several. With an expression loss it counts by its samples.
  template <class Loss, class Image>
  static LossDivisors divisors(const auto& evaluation, const Image& image) {
    if constexpr (is_expression_loss<Loss>)
      return {1, {LossMean{.divisor = static_cast<double>(image.extent(0))}}, {}};
    else
      return evaluation.loss_divisors();
  }

  /// The gradient's memory, made if there is none for images that are placed so.
  template <class Image>
  Gradient& of(const Held& parameters, const Image& image) {
    if constexpr (!std::is_same_v<P, Replicate>) {
      if (!gradient_) gradient_.emplace(parameters.zeros("halogen::gradient"));
    } else {
      const Communicator ranks = sub_meshes(image).samples;
      if (!gradient_ || !(gradient_->summed_over() == ranks)) {
        gradient_.emplace("halogen::gradient", ranks);
        ++made_;
      }
    }
    return *gradient_;
  }

  /// How often memory was made for gradients of whole parameters.
  std::size_t made() const { return made_; }
  /// Bytes of the gradient on this rank; 0 before the first batch.
  std::size_t bytes() const { return gradient_ ? gradient_->view().size() * sizeof(T) : 0; }

 private:
  std::unique_ptr<Net> network_;
  std::optional<Gradient> gradient_;
  std::size_t made_ = 0;
  double expression_value_ = 0;
};

}  // namespace halogen::detail
