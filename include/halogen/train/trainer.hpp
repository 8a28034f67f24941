// Trainer: parameters, optimiser state and plan of one model on one mesh; the same source on any number of ranks.
#pragma once

#include <memory>
#include <type_traits>

#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"
#include "halogen/train/optimizer.hpp"

namespace halogen {

struct TrainerOptions {
  std::uint64_t seed = 0;
};

/// Trainer trainer(UNet{}, AdamW{.lr = 1e-3}, mesh, {.seed = 7}); value type float, or the last template argument.
/// Images (N, C, H, W) may be cut in N, H and W; parameters and moments are Replicate. One step: halos and norm sums
/// of the layers, two small sums of the loss, one all_reduce of the gradient bucket.
template <class ModelType, class Optimizer, class MeshType, class T = float>
class Trainer {
  static_assert(std::is_same_v<Optimizer, AdamW>, "Trainer knows AdamW");
  using Net = Network<ModelType, T>;

 public:
  Trainer(ModelType, Optimizer optimizer, const DeviceMesh<MeshType>&, TrainerOptions options = {})
      : parameters_(initial_parameters<ModelType, T>(options.seed)),
        state_(optimizer),
        network_(std::make_unique<Net>()) {}

  /// The result of one step; valid until the next step or predict(), which reuse its memory.
  template <class Image>
  class Step {
   public:
    Step(Trainer& trainer, const Image& image) : trainer_(trainer), image_(image) {}

    /// The loss before the update, the same on all ranks; waits for the device.
    double item() const { return trainer_.network_->template evaluation<PlanKind::training>(image_).loss(); }
    /// The prediction before the update, placed as the image.
    auto prediction() const {
      return Net::prediction(image_, trainer_.network_->template evaluation<PlanKind::training>(image_));
    }

   private:
    Trainer& trainer_;
    Image image_;
  };

  /// Forward, backward, update. label: the prediction's shape and cut; weight: one channel, or none.
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight>
  Step<Image> step(const Loss&, const Image& image, const Label& label, const Weight& weight = no_weight) {
    static_assert(std::is_same_v<typename Image::value_type, T>, "the trainer and its fields have one value type");
    auto& evaluation = network_->template evaluation<PlanKind::training>(image);
    Parameters<ModelType, T, Partial<Sum>>& gradient = gradient_over(detail::sub_meshes(image).samples);
    detail::run_training<Loss>(evaluation, parameters_.data(), gradient.data(), image, label, weight);
    state_.step(parameters_, redistribute<Replicate>(gradient));
    return {*this, image};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight>>
    requires(!Fits<ModelType, Image, Label, Weight>)
  void step(const Loss&, const Image& image, const Label& label, const Weight& weight = no_weight) = delete;

  /// The model's output with the present parameters.
  template <class Image>
    requires Fits<ModelType, Image>
  auto predict(const Image& image) {
    auto& evaluation = network_->template evaluation<PlanKind::inference>(image);
    evaluation.forward(detail::view_of(image), parameters_.data());
    return Net::prediction(image, evaluation);
  }
  template <class Image, class Why = WhyNot<ModelType, Image>>
    requires(!Fits<ModelType, Image>)
  void predict(const Image& image) = delete;

  const Parameters<ModelType, T>& parameters() const { return parameters_; }

  /// The plan's layout on this rank, once a step has been taken with such an image.
  template <class Image>
  const Layout& layout(const Image& image) {
    return network_->template evaluation<PlanKind::training>(image).layout();
  }

 private:
  Parameters<ModelType, T, Partial<Sum>>& gradient_over(const Communicator& ranks) {
    if (!gradient_ || !(gradient_->summed_over() == ranks)) gradient_.emplace("halogen::gradient", ranks);
    return *gradient_;
  }

  Parameters<ModelType, T> parameters_;
  OptimizerState<ModelType, T> state_;
  std::optional<Parameters<ModelType, T, Partial<Sum>>> gradient_;
  std::unique_ptr<Net> network_;
};

template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>) -> Trainer<ModelType, Optimizer, MeshType, float>;
template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>, TrainerOptions) -> Trainer<ModelType, Optimizer, MeshType, float>;

}  // namespace halogen
