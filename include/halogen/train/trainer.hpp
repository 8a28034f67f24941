// Trainer: parameters, optimiser state and plan of one model on one mesh; the same source on any number of ranks.
#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/train/captured_step.hpp"
#include "halogen/train/expression_step.hpp"
#include "halogen/train/gradient_mean.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"
#include "halogen/train/not_finite.hpp"
#include "halogen/train/optimizer.hpp"
#include "halogen/train/parameters/parameter_memory.hpp"
#include "halogen/train/value_and_grad.hpp"

namespace halogen {

/// seed: of the parameters' first values, and of what layers draw in each step. groups, average: as OptimizerOptions.
/// check: each step and accumulate() waits for its loss and gradient and looks at them. Where one is not finite nothing
/// is updated, and CollectiveError names the first field of the batch, parameter, and layer with such a number, and its
/// point. Costs a wait and a copy of the gradient to the host for each step: it is for a search.
struct TrainerOptions {
  std::uint64_t seed = 0;
  std::vector<ParameterGroup> groups{};
  double average = 0;
  bool check = false;
};

/// Trainer trainer(UNet{}, AdamW{.lr = 1e-3}, mesh, {.seed = 7}); value type float, or the last but one template
/// argument; with float parameters images, labels and weights may each be of bfloat16: of bfloat16 images a step stores
/// and sends two-byte values (activations, gradients of activations, halos) and computes in float. Images (N, C, H, W)
/// or (N, C, D, H, W) may be cut in all but C. One step: halos and norm sums of the
/// layers, two small sums of the loss, and
///
///   parameters, moments          gradient
///   Replicate                    one all_reduce
///   shard_parameters<"data">     one reduce_scatter a layer over "data", one all_reduce of the 1/N over the rest; one
///   (the last argument)          all_gather a layer, forward and again backward, over "data"
template <class ModelType, class Optimizer, class MeshType, class T = float, class Sharding = Replicate>
class Trainer {
  static constexpr bool sharded = ShardsParameters<Sharding>;
  static_assert(sharded || std::is_same_v<Sharding, Replicate>, "Trainer's last argument is shard_parameters<...>");
  using P = std::conditional_t<sharded, Shard<0>, Replicate>;
  using Gradient = Parameters<ModelType, T, gradient_placement_t<P>>;
  using Net = Network<ModelType, T, P>;

 public:
  Trainer(ModelType, Optimizer optimizer, const DeviceMesh<MeshType>& mesh, TrainerOptions options = {},
          Sharding sharding = {})
      : mesh_(mesh),
        parameters_(start(options.seed, mesh, sharding)),
        state_(optimizer, parameters_, {options.groups, options.average}),
        seed_(options.seed),
        check_(options.check),
        network_(std::make_unique<Net>(parameters_)) {}

  /// The result of one step. It can be read until the next step() or accumulate(), and its prediction until the next
  /// predict(): they use its memory again. Later reads throw Error.
  template <class Image, PlanKind Plan = PlanKind::training>
  class Step {
    using E = typename Net::template EvaluationOf<Plan, Image>;

   public:
    Step(Trainer& trainer, const Image& image, const std::shared_ptr<E>& evaluation)
        : trainer_(trainer),
          mesh_(image.mesh()),
          evaluation_(evaluation),
          value_(trainer.expression_value_),
          step_(trainer.differentiated_),
          predictions_(trainer.predicted_) {}

    /// The loss before the update, the same on all ranks; waits for the device.
    double item() const {
      if constexpr (Plan == PlanKind::vjp)
        return value_;
      else
        return evaluation()->loss();
    }
    /// The prediction before the update, placed as the image; a tuple of a model's several.
    auto prediction() const {
      if (predictions_ != trainer_.predicted_)
        throw Error("prediction() of a step before predict(), which used its memory: read it before");
      return Net::template prediction_on<Image>(mesh_, *evaluation());
    }

   private:
    std::shared_ptr<E> evaluation() const {
      auto kept = evaluation_.lock();
      if (step_ != trainer_.differentiated_ || !kept)
        throw Error(
            "item() or prediction() of an earlier step: a trainer keeps the last one's; read each step's before the "
            "next");
      return kept;
    }

    Trainer& trainer_;
    std::remove_cvref_t<decltype(std::declval<const Image&>().mesh())> mesh_;
    std::weak_ptr<E> evaluation_;  ///< empty once the evaluation of another image took its place
    double value_;
    std::size_t step_, predictions_;
  };
  template <class Loss>
  static constexpr PlanKind step_plan = detail::is_expression_loss<Loss> ? PlanKind::vjp : PlanKind::training;
  template <class Loss, class Image>
  using StepOf = Step<Image, step_plan<Loss>>;

  /// Forward, backward, update. label: the prediction's shape and cut; weight: one channel, or none. Of an
  /// expression_loss label and weight are what it takes.
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight, T, Loss>
  StepOf<Loss, Image> step(const Loss& loss, const Image& image, const Label& label, const Weight& weight = no_weight) {
    const auto& evaluation = differentiate("step", loss, image, label, weight);
    Gradient& gradient = gradient_of(image);
    const double* least_weight = evaluation->loss_weight();
    if (mean_.pending() > 0) least_weight = mean_.take(gradient, divisors_of<Loss>(*evaluation, image));
    if constexpr (sharded)
      state_.step(parameters_, gradient, least_weight);
    else
      state_.step(parameters_, redistribute<Replicate>(gradient, gradient_image_), least_weight);
    return {*this, image, evaluation};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight, T, Loss>>
    requires(!Fits<ModelType, Image, Label, Weight, T, Loss>)
  void step(const Loss&, const Image& image, const Label& label,  // an expression? write Image v = u + 1; and give v
            const Weight& weight = no_weight) = delete;

  /// A step by what loss_of(net) returns: whatever value_and_grad takes, such as a loss of several steps of a rollout.
  /// Returns its value before the update. Keep to one loss: plans and memory are kept from step to step. Sharded
  /// parameters take losses such as mse(net(x), y) alone. CollectiveError after accumulate().
  ///
  ///   trainer.step([&](auto net) { return hg::mean(hg::square(hg::rollout<3>(net, now) - after_three)); });
  template <class LossOf>
  double step(LossOf loss_of) {
    if (mean_.pending() > 0)
      throw CollectiveError(
          "step(loss_of) does not take the mean with gradients of accumulate(): call step(loss, x, y)");
    using With = detail::WithNetworks<(sizeof(LossOf) > 0)>;
    const detail::EvaluationScope scope;
    called_.called = 0;
    called_.seed = seed_;
    called_.keeps_statistics = true;
    if constexpr (Parameters<ModelType, T>::graph().draws) called_.set_step(state_.steps());
    std::optional<detail::StepCheck<Parameters<ModelType, T, P>>> check;
    if (check_) check.emplace(parameters_);
    const auto result = With::of(called_, loss_of(With::template variable<0>(called_, parameters_)), parameters_);
    if (check)
      check->after(words_of_step(), std::get<0>(result), std::get<1>(result), mesh_.world(),
                   [] { return std::string(); });
    if constexpr (sharded)
      state_.step(parameters_, std::get<1>(result));
    else
      state_.step(parameters_, redistribute<Replicate>(std::get<1>(result), gradient_image_));
    return std::get<0>(result);
  }

  /// Adds the gradient of this loss to those of the next step, its own among them: n - 1 calls and a step are a step
  /// with one batch of all their points, each by its weight (gradient_mean.hpp). An expression loss counts by the
  /// samples of its batch. Nothing is updated, and nothing sent for it but what sharded parameters send. The images of
  /// one step are placed alike. CollectiveError where a batch counts more in one output than in another.
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight, T, Loss>
  StepOf<Loss, Image> accumulate(const Loss& loss, const Image& image, const Label& label,
                                 const Weight& weight = no_weight) {
    const auto& evaluation = differentiate("accumulate", loss, image, label, weight);
    mean_.add(gradient_of(image), divisors_of<Loss>(*evaluation, image));
    return {*this, image, evaluation};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight, T, Loss>>
    requires(!Fits<ModelType, Image, Label, Weight, T, Loss>)
  void accumulate(const Loss& loss, const Image& image, const Label& label, const Weight& weight = no_weight) = delete;

  /// The same step of these fields, to be called again and again: on a device one launch (captured_step.hpp).
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires(!sharded && Fits<ModelType, Image, Label, Weight, T, Loss>)
  CapturedStep<Trainer, Loss, Image, Label, Weight> capture(const Loss& loss, const Image& image, const Label& label,
                                                            const Weight& weight = no_weight) {
    static_assert(!detail::is_expression_loss<Loss>, "an expression_loss may allocate and wait: call step()");
    if (LaunchGraph::records && check_)
      throw CollectiveError("a trainer that checks its steps cannot capture one: make it without {.check = true}");
    if (LaunchGraph::records && parameters_.graph().evaluates)
      throw CollectiveError(
          "a model with a Function cannot be captured: its expressions may allocate and wait; call step()");
    return {*this, loss, image, label, weight};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = std::conditional_t<sharded, why::sharded_step_is_not_captured,
                                           WhyNot<ModelType, Image, Label, Weight, T, Loss>>>
    requires(sharded || !Fits<ModelType, Image, Label, Weight, T, Loss>)
  void capture(const Loss& loss, const Image& image, const Label& label,  // an expression? write Image v = u + 1;
               const Weight& weight = no_weight) = delete;

  /// For CapturedStep: the evaluation of a step with this image, and the gradient's memory.
  template <class Image>
  const auto& bind_step(const Image& image) {
    const auto& evaluation = network_->template bind<PlanKind::training>(image, "capture");
    gradient_of(image);
    return evaluation;
  }
  /// What a recorded step depends on, after bind_step: the evaluations made so far, and how often its memory has moved
  /// or was another's. The numbers are the same on all ranks, so all record, and start what was recorded, together.
  template <class Image, class Label, class Weight>
  StepMemory memory_of_step(const Image& image, const Label& label, const Weight& weight) const {
    const auto growths = [](const auto& field) { return static_cast<std::size_t>(field.margin_growths()); };
    std::size_t of_inputs = growths(image), of_labels = 0, of_weights = 0;
    detail::for_each_more(image, [&](const auto& field, int) { of_inputs += growths(field); });
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto add = [&]<class Field>(std::size_t& sum, const Field& field) {
        if constexpr (!std::is_same_v<Field, NoWeight>) sum += growths(field);
      };
      (add(of_labels, detail::one_of<I>(label)), ...), (add(of_weights, detail::one_of<I>(weight)), ...);
    }(std::make_integer_sequence<int, outputs_of<ModelType>>{});
    return {network_->evaluations(), of_inputs, of_labels, of_weights, gradients_, state_.identity()};
  }
  /// The result of a recorded step of this evaluation that has been started again. means: how its loss follows from its
  /// sums, as when it was recorded.
  template <class Image, class E>
  Step<Image> replayed(const Image& image, const std::shared_ptr<E>& evaluation, const LossMeans& means) {
    ++differentiated_;
    evaluation->set_loss_means(means);
    return {*this, image, evaluation};
  }

  /// Whether gradients of accumulate() wait for a step.
  bool has_pending() const { return mean_.pending() > 0; }

  /// The model's output with the present parameters.
  template <class Image>
    requires Fits<ModelType, Image, NoWeight, NoWeight, T>
  auto predict(const Image& image) {
    ++predicted_;
    return network_->infer(parameters_, image);
  }
  template <class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
    requires(!Fits<ModelType, Image, NoWeight, NoWeight, T>)
  void predict(const Image& image) = delete;  // an expression? write Image v = u + 1; and give v

  const DeviceMesh<MeshType>& mesh() const { return mesh_; }
  const Parameters<ModelType, T, P>& parameters() const { return parameters_; }

  /// Their moving average (TrainerOptions::average), the buffers as they are: hg::infer(trainer.averaged_parameters(),
  /// x).
  Parameters<ModelType, T, P> averaged_parameters() const {
    if (state_.average() == nullptr)
      throw CollectiveError("this trainer keeps no average of its parameters: make it with {.average = 0.999}");
    Parameters<ModelType, T, P> result = parameters_.clone();
    if (state_.steps() == 0) return result;
    const std::pair<index_t, index_t> trained(0, parameters_.trained_values());
    Kokkos::deep_copy(Kokkos::subview(result.view(), trained), Kokkos::subview(state_.average()->view(), trained));
    return result;
  }
  /// Moments, number of steps, learning rate; io/checkpoint.hpp saves and loads the first two.
  OptimizerState<ModelType, T, P, Optimizer>& optimizer_state() { return state_; }
  const OptimizerState<ModelType, T, P, Optimizer>& optimizer_state() const { return state_; }

  /// Of the next steps, captured ones too. Give all ranks the same. Throws CollectiveError for what is no rate.
  ///
  ///   trainer.set_learning_rate(1e-3 * 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs)));
  void set_learning_rate(double lr) { state_.set_learning_rate(lr); }
  double learning_rate() const { return state_.learning_rate(); }

  /// Bytes on this rank, as allocated; gradient and staging from the first step on.
  ParameterMemory parameter_memory() const {
    return {parameters_.view().size() * sizeof(T), gradient_ ? gradient_->view().size() * sizeof(T) : 0, state_.bytes(),
            network_->staging_bytes()};
  }

  /// The plan's layout on this rank, once a step has been taken with such an image.
  template <class Image>
  const Layout& layout(const Image& image) {
    return network_->template evaluation<PlanKind::training>(image).layout();
  }

 private:
  static Parameters<ModelType, T, P> start(std::uint64_t seed, const DeviceMesh<MeshType>& mesh, Sharding sharding) {
    if constexpr (sharded)
      return initial_parameters<ModelType, T>(seed, mesh, sharding);
    else
      return initial_parameters<ModelType, T>(seed);
  }

  /// Forward and backward; returns the evaluation.
  template <class Loss, class Image, class Label, class Weight>
  const auto& differentiate(const char* user, const Loss& loss, const Image& image, const Label& label,
                            const Weight& weight) {
    const auto& bound = network_->template bind<step_plan<Loss>>(image, user);
    auto& evaluation = *bound;
    ++differentiated_;
    evaluation.set_random({seed_, state_.steps_on_device(), static_cast<std::uint32_t>(mean_.pending())});
    std::optional<detail::StepCheck<Parameters<ModelType, T, P>>> check;
    if (check_) check.emplace(parameters_);
    T* const gradient = gradient_of(image).data();
    if constexpr (detail::is_expression_loss<Loss>)
      expression_value_ =
          detail::run_expression_loss<Net>(evaluation, loss, parameters_.data(), gradient, image, label, weight);
    else
      detail::run_training(evaluation, loss, parameters_.data(), gradient, image, label, weight);
    if (check)
      check->after(words_of_step(), loss_value<Loss>(evaluation), gradient_of(image), mesh_.world(), [&] {
        return detail::words_about_fields(image, label, weight) +
               detail::words_about_layers<ModelType>(evaluation, image, parameters_.data(), mesh_.world());
      });
    return bound;
  }

  std::string words_of_step() const { return "step " + std::to_string(state_.steps() + 1); }
  template <class Loss>
  double loss_value(auto& evaluation) const {
    if constexpr (detail::is_expression_loss<Loss>)
      return expression_value_;
    else
      return evaluation.loss();
  }

  template <class Loss, class Image>
  static LossDivisors divisors_of(const auto& evaluation, const Image& image) {
    if constexpr (detail::is_expression_loss<Loss>)
      return {1, {LossMean{.divisor = static_cast<double>(image.extent(0))}}, {}};
    else
      return evaluation.loss_divisors();
  }

  template <class Image>
  Gradient& gradient_of(const Image& image) {
    if constexpr (sharded) {
      if (!gradient_) gradient_.emplace(parameters_.zeros("halogen::gradient"));
    } else {
      const Communicator ranks = detail::sub_meshes(image).samples;
      if (!gradient_ || !(gradient_->summed_over() == ranks)) {
        gradient_.emplace("halogen::gradient", ranks);
        ++gradients_;
      }
    }
    return *gradient_;
  }

  DeviceMesh<MeshType> mesh_;
  Parameters<ModelType, T, P> parameters_;
  OptimizerState<ModelType, T, P, Optimizer> state_;
  std::uint64_t seed_;
  bool check_;
  std::optional<Gradient> gradient_;
  std::size_t gradients_ = 0;                       ///< made so far
  std::size_t differentiated_ = 0, predicted_ = 0;  ///< how often, so that a Step knows whether it is the last
  detail::GradientMean<Gradient, T> mean_;
  double expression_value_ = 0;    ///< of the last expression loss
  detail::CalledNetworks called_;  ///< by a loss_of
  TransportImage<T> gradient_image_;
  std::unique_ptr<Net> network_;
};

template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>) -> Trainer<ModelType, Optimizer, MeshType, float>;
template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>, TrainerOptions) -> Trainer<ModelType, Optimizer, MeshType, float>;
template <class ModelType, class Optimizer, class MeshType, ShardsParameters Sharding>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>, TrainerOptions, Sharding)
    -> Trainer<ModelType, Optimizer, MeshType, float, Sharding>;

}  // namespace halogen
