// Trainer: parameters, optimiser state and plan of one model on one mesh; the same source on any number of ranks.
#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/train/batch_gradient.hpp"
#include "halogen/train/captured_step.hpp"
#include "halogen/train/gradient_mean.hpp"
#include "halogen/train/not_finite.hpp"
#include "halogen/train/optimizer.hpp"
#include "halogen/train/parameters/parameter_memory.hpp"
#include "halogen/train/step_result.hpp"
#include "halogen/train/value_and_grad.hpp"

namespace halogen {

/// seed: of the parameters' first values, and of the random numbers that layers draw in each step. groups, average: as
/// in OptimizerOptions. check: each step() and accumulate() waits for its loss and gradient and looks at them. If one
/// is not finite, nothing is updated, and a CollectiveError names the first field of the batch, the first parameter and
/// the first layer with such a number, and its point. The check is for a search: it costs a wait and a copy of the
/// gradient to the host in each step.
///
/// micro_batches: step() and accumulate() run the samples in so many parts, one after the other, in the arena of the
/// largest part. They have the result of the whole batch: one loss, one all_reduce of the gradient, the same random
/// numbers. Each rank cuts its own samples into parts, and needs a sample for each. Statistics over samples (BatchNorm,
/// a Function) are those of a part, and a part of an expression loss counts by its samples. A second gradient is held;
/// halos, sums of norms and sharded parameters are sent for each part.
///
/// memory_limit: everything that Halogen holds on a rank stays within so many bytes: activations with halo buffers and
/// workspace, parameters, gradient, moments, and what launches allocate. Fields that you make and what MPI or NCCL
/// hold are not counted. Where not all fits, some activations are computed again in the backward pass, as few as do
/// (docs/memory.md); results are the same to the bit. Where even that does not fit, a CollectiveError says what would.
/// A gradient that accumulate() keeps is counted.
struct TrainerOptions {
  std::uint64_t seed = 0;
  std::vector<ParameterGroup> groups{};
  double average = 0;
  bool check = false;
  std::size_t memory_limit = 0;
  int micro_batches = 1;
};

/// Trainer trainer(UNet{}, AdamW{.lr = 1e-3}, mesh, {.seed = 7}); T, the type of the parameters, is float or given as a
/// template argument. Images (N, C, H, W) or (N, C, D, H, W) may be cut in all dimensions but C. With float parameters,
/// image, label and weight may each be bfloat16. If the image is, then activations, their gradients and halos are
/// stored and sent in two bytes; arithmetic stays float. A step sends the halos and the sums of norms of its layers,
/// two small sums of the loss, and
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
  using Net = Network<ModelType, T, P>;
  using Held = Parameters<ModelType, T, P>;
  using Batch = detail::BatchGradient<ModelType, T, P>;

 public:
  Trainer(ModelType, Optimizer optimizer, const DeviceMesh<MeshType>& mesh, TrainerOptions options = {},
          Sharding sharding = {})
      : mesh_(mesh),
        parameters_(start(options.seed, mesh, sharding)),
        state_(optimizer, parameters_, {options.groups, options.average}),
        seed_(options.seed),
        check_(options.check),
        gradient_(parameters_, options.micro_batches),
        uses_{.parts = options.micro_batches} {
    // two gradients: one is accumulated (accumulate), or sent from memory of the transport; a third is a part's
    const std::size_t of_parameters = parameters_.view().size() * sizeof(T);
    if (options.memory_limit > 0)
      gradient_.network().limit_memory(
          {options.memory_limit, (options.micro_batches > 1 ? 4 : 3) * of_parameters + state_.bytes()});
  }

  template <class Loss>
  static constexpr PlanKind step_plan = Batch::template plan<Loss>;
  template <class Loss, class Image>
  using StepOf = StepResult<Net, Image, step_plan<Loss>>;

  /// Forward, backward, update. The label has the shape and cut of the prediction, and the weight, if there is one, has
  /// one channel. An expression_loss takes any label and weight.
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight, T, Loss>
  StepOf<Loss, Image> step(const Loss& loss, const Image& image, const Label& label, const Weight& weight = no_weight) {
    const auto evaluation = differentiate("step", loss, image, label, weight);
    auto& gradient = gradient_of(image);
    const double* least_weight = evaluation->loss_weight();
    if (mean_.pending() > 0) least_weight = mean_.take(gradient, Batch::template divisors<Loss>(*evaluation, image));
    if constexpr (sharded)
      state_.step(parameters_, gradient, least_weight);
    else
      state_.step(parameters_, redistribute<Replicate>(gradient, gradient_copy_), least_weight);
    return {image, evaluation, gradient_.expression_value(), uses_};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight, T, Loss>>
    requires(!Fits<ModelType, Image, Label, Weight, T, Loss>)
  void step(const Loss&, const Image& image, const Label& label,  // an expression? write Image v = u + 1; and give v
            const Weight& weight = no_weight) = delete;

  /// A step whose loss is loss_of(net), which may be anything that value_and_grad takes, such as a loss of several
  /// steps of a rollout. Returns the loss before the update. Give the same loss_of in each step: plans and memory are
  /// kept from step to step. With sharded parameters the loss must be of the form mse(net(x), y). Throws
  /// CollectiveError after accumulate(), and if the trainer runs micro-batches.
  ///
  ///   trainer.step([&](auto net) { return hg::mean(hg::square(hg::rollout<3>(net, now) - after_three)); });
  template <class LossOf>
  double step(LossOf loss_of) {
    if (mean_.pending() > 0)
      throw CollectiveError(
          "step(loss_of) does not take the mean with gradients of accumulate(): call step(loss, x, y)");
    if (gradient_.parts() > 1)
      throw CollectiveError("step(loss_of) does not know which samples make micro-batches: call step(loss, x, y)");
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
      state_.step(parameters_, redistribute<Replicate>(std::get<1>(result), gradient_copy_));
    return std::get<0>(result);
  }

  /// Accumulates this batch's gradient. The next step() averages it with its own: n - 1 calls of accumulate() and one
  /// step() equal one step with all their points in one batch (gradient_mean.hpp). A batch counts by its weights or
  /// points; with an expression loss it counts by its samples. Nothing is updated, and nothing is sent except what
  /// sharded parameters send. All batches of one step must be placed alike. Throws CollectiveError if a batch counts
  /// more in one output than in another.
  template <class Loss, class Image, class Label, class Weight = NoWeight>
    requires Fits<ModelType, Image, Label, Weight, T, Loss>
  StepOf<Loss, Image> accumulate(const Loss& loss, const Image& image, const Label& label,
                                 const Weight& weight = no_weight) {
    const auto evaluation = differentiate("accumulate", loss, image, label, weight);
    mean_.add(gradient_of(image), Batch::template divisors<Loss>(*evaluation, image));
    return {image, evaluation, gradient_.expression_value(), uses_};
  }
  template <class Loss, class Image, class Label, class Weight = NoWeight,
            class Why = WhyNot<ModelType, Image, Label, Weight, T, Loss>>
    requires(!Fits<ModelType, Image, Label, Weight, T, Loss>)
  void accumulate(const Loss& loss, const Image& image, const Label& label, const Weight& weight = no_weight) = delete;

  /// A step of these fields, to be called again and again. On a device each call is one launch (captured_step.hpp).
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

  /// The evaluation of a step with this image, and the gradient's memory are made, if they are not there. Collective.
  /// If the last step's image had other extents, cuts or another mesh, its evaluation is lost.
  template <class Image>
  auto bind_step(const Image& image) {
    const auto evaluation = gradient_.template bind<PlanKind::training>(image, "capture");
    gradient_of(image);
    return evaluation;
  }
  /// What a recorded step depends on, after bind_step: the evaluations made so far, and how often its memory has moved
  /// or was another's. The numbers are the same on all ranks, so all record, and start what was recorded, together.
  template <class Image, class Label, class Weight>
  StepMemory memory_of_step(const Image& image, const Label& label, const Weight& weight) const {
    const auto [of_inputs, of_labels, of_weights] = detail::margin_growths<outputs_of<ModelType>>(image, label, weight);
    return {gradient_.network().evaluations(), of_inputs, of_labels, of_weights, gradient_.made(), state_.identity()};
  }
  /// The result of a recorded step of this evaluation that has been started again. means: how its loss follows from its
  /// sums, as when it was recorded.
  template <class Image, class E>
  StepResult<Net, Image, PlanKind::training> replayed(const Image& image, const std::shared_ptr<E>& evaluation,
                                                      const LossMeans& means) {
    ++uses_.steps;
    evaluation->set_loss_means(means);
    return {image, evaluation, 0, uses_};
  }

  /// Whether gradients of accumulate() wait for a step.
  bool has_pending() const { return mean_.pending() > 0; }

  /// The model's output with the present parameters.
  template <class Image>
    requires Fits<ModelType, Image, NoWeight, NoWeight, T>
  auto predict(const Image& image) {
    ++uses_.predictions;
    return gradient_.network().infer(parameters_, image);
  }
  template <class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
    requires(!Fits<ModelType, Image, NoWeight, NoWeight, T>)
  void predict(const Image& image) = delete;  // an expression? write Image v = u + 1; and give v

  const DeviceMesh<MeshType>& mesh() const { return mesh_; }
  const Parameters<ModelType, T, P>& parameters() const { return parameters_; }

  /// The moving average of the parameters (TrainerOptions::average), with the buffers as they are:
  /// hg::infer(trainer.averaged_parameters(), x). Throws CollectiveError if the trainer keeps no average.
  Parameters<ModelType, T, P> averaged_parameters() const {
    if (state_.average() == nullptr)
      throw CollectiveError("this trainer keeps no average of its parameters: make it with {.average = 0.999}");
    Parameters<ModelType, T, P> result = parameters_.clone();
    if (state_.steps() == 0) return result;
    const std::pair<index_t, index_t> trained(0, parameters_.trained_values());
    Kokkos::deep_copy(Kokkos::subview(result.view(), trained), Kokkos::subview(state_.average()->view(), trained));
    return result;
  }
  /// Moments, number of steps and learning rate.
  OptimizerState<ModelType, T, P, Optimizer>& optimizer_state() { return state_; }
  const OptimizerState<ModelType, T, P, Optimizer>& optimizer_state() const { return state_; }

  /// Sets the learning rate of all following steps, captured ones too. Every rank must pass the same value. Throws
  /// CollectiveError if lr is negative or not finite.
  ///
  ///   trainer.set_learning_rate(1e-3 * 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs)));
  void set_learning_rate(double lr) { state_.set_learning_rate(lr); }
  double learning_rate() const { return state_.learning_rate(); }

  /// Bytes that are allocated on this rank. The gradient and the staging buffers are allocated in the first step.
  ParameterMemory parameter_memory() const {
    return {parameters_.view().size() * sizeof(T), gradient_.bytes(), state_.bytes(),
            gradient_.network().staging_bytes()};
  }

  /// The former way to step(...).layout(), for one release. Collective; binds such an image anew.
  template <class Image>
  [[deprecated("a step's result has the layout: trainer.step(...).layout()")]] const Layout& layout(
      const Image& image) {
    return bind_step(image)->layout();
  }

 private:
  static Parameters<ModelType, T, P> start(std::uint64_t seed, const DeviceMesh<MeshType>& mesh, Sharding sharding) {
    if constexpr (sharded)
      return initial_parameters<ModelType, T>(seed, mesh, sharding);
    else
      return initial_parameters<ModelType, T>(seed);
  }

  /// Forward and backward. Returns the evaluation.
  template <class Loss, class Image, class Label, class Weight>
  auto differentiate(const char* user, const Loss& loss, const Image& image, const Label& label, const Weight& weight) {
    const auto evaluation = gradient_.template bind<step_plan<Loss>>(image, user);
    ++uses_.steps;
    std::optional<detail::StepCheck<Held>> check;
    if (check_) check.emplace(parameters_);
    const RandomStream random{seed_, state_.steps_on_device(), static_cast<std::uint32_t>(mean_.pending())};
    gradient_.compute(*evaluation, random, loss, parameters_, image, label, weight);
    const auto words_about_layers = [&] {
      using E = std::remove_cvref_t<decltype(*evaluation)>;
      return detail::words_about_layers<ModelType, E>(
          evaluation->layout(), parameters_.data(), mesh_.world(),
          [&](auto look) { gradient_.template for_each_part<Loss>(image, look); });
    };
    if (check)
      check->after(words_of_step(), gradient_.template loss_value<Loss>(*evaluation), gradient_of(image), mesh_.world(),
                   [&] { return detail::words_about_fields(image, label, weight) + words_about_layers(); });
    return evaluation;
  }

  std::string words_of_step() const { return "step " + std::to_string(state_.steps() + 1); }

  auto& gradient_of(const auto& image) { return gradient_.of(parameters_, image); }

  DeviceMesh<MeshType> mesh_;
  Held parameters_;
  OptimizerState<ModelType, T, P, Optimizer> state_;
  std::uint64_t seed_;
  bool check_;
  Batch gradient_;
  detail::GradientMean<typename Batch::Gradient, T> mean_;
  detail::ResultUses uses_;
  detail::CalledNetworks called_;  ///< by a loss_of
  TransportCopy<T> gradient_copy_;
};

template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>) -> Trainer<ModelType, Optimizer, MeshType, float>;
template <class ModelType, class Optimizer, class MeshType>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>, TrainerOptions) -> Trainer<ModelType, Optimizer, MeshType, float>;
template <class ModelType, class Optimizer, class MeshType, ShardsParameters Sharding>
Trainer(ModelType, Optimizer, DeviceMesh<MeshType>, TrainerOptions, Sharding)
    -> Trainer<ModelType, Optimizer, MeshType, float, Sharding>;

}  // namespace halogen
