// What an evaluation of any model has, and what it does between the launches: memory, exchanges, sums, losses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "halogen/core/prepared.hpp"
#include "halogen/run/arena.hpp"
#include "halogen/run/collectives.hpp"
#include "halogen/run/halo_schedule.hpp"
#include "halogen/run/parameters/whole_parameters.hpp"
#include "halogen/run/run_launch.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {

/// The part of an Evaluation that does not depend on the model, so that programs can share it (halogen::compiled). The
/// plan must outlive it.
template <class S, class Access>
class EvaluationParts {
 protected:
  using Space = execution_space;
  using T = compute_type<S>;

 public:
  EvaluationParts(Layout layout, const detail::SubMeshes& meshes, std::shared_ptr<Arena> arena, Access access,
                  const LaunchTable<S>& table);
  EvaluationParts(const EvaluationParts&) = delete;  // the operands refer to the layout
  EvaluationParts& operator=(const EvaluationParts&) = delete;

  const Layout& layout() const { return layout_; }

  /// The random numbers that layers draw, from the next forward on. Without a call they draw none.
  void set_random(const RandomStream& random) { random_ = random; }

  /// Lets a vjp plan update running statistics too. For a caller that runs its forward pass once in each step.
  void keep_statistics(bool on = true) { keeps_statistics_ = on; }

  /// The same inputs, at the addresses where they are now, after forward.
  void rebind_inputs(const InputViews<S>& inputs) { operands_.bind_inputs(inputs); }

  /// Copies the owned points of a stored tensor (a prediction or an input gradient) to a field of the same cut.
  void copy_tensor(TensorId tensor, const TensorView<S>& to) const {
    copy_stored(space_, plan_, layout_, operands_, tensor, to);
  }

  /// This rank's points of a stored tensor, in the order of (N, C, D, H, W), until a launch writes over it.
  std::vector<S> values_of(TensorId tensor) const {
    const Interval* owned = layout_.tensor(tensor).owned;
    const index_t row = owned[2].size(), plane = owned[1].size() * row, channel = owned[0].size() * plane;
    const int channels = plan_.tensors[tensor].channels;
    const Kokkos::View<S*, memory_space> values("halogen::values",
                                                static_cast<std::size_t>(layout_.samples() * channels * channel));
    const TensorView<S> view{values.data(), channels * channel, channel,
                             row,           owned[1].begin,     owned[2].begin,
                             plane,         owned[0].begin,     static_cast<int>(owned[0].size())};
    if (values.size() > 0) copy_tensor(tensor, view);
    return host_copy(values);
  }

  /// Calls f(i) after each launch i, until it is given an empty one. For a search for a fault.
  void watch_launches(std::function<void(int)> f) { watcher_ = std::move(f); }

  TensorView<S> prediction(int output = 0) const { return operands_.tensor(plan_.prediction[output]); }

  /// The loss of all ranks, the same on each. Waits for the device and for the one small sum.
  double loss() { return losses_.sum->value(space_); }
  /// How the loss of the last step was computed. A step that is repeated without the host needs this.
  const LossMeans& loss_means() const { return losses_.sum->means(); }
  LossDivisors loss_divisors() const { return losses_.sum->divisors(); }
  void set_loss_means(const LossMeans& means) { losses_.sum->set_means(means); }
  /// Where kernels find the least sum of the last step's weights; null without weights. If it is not positive, nothing
  /// may be updated.
  const double* loss_weight() const { return losses_.sum->weight_of_step(); }
  /// From now on each run is a part of a step, whose losses are summed here (LossSum).
  void sum_losses_in(const std::shared_ptr<LossSum>& sum) { losses_.sum = sum; }

 protected:
  void begin_forward(const InputViews<S>& inputs, T* parameters);
  void begin_backward(T* gradient) { parameters_.begin_backward(gradient); }
  void begin_backward(const std::array<TensorView<S>, most_outputs>& cotangents, T* gradient);
  void end_forward() { halos_->send(); }
  void end_backward();

  /// Binds the losses of a step to the launches that compute them. The terms must outlive the step.
  template <class... Terms>
  void bind_losses(const Terms&... terms) {
    int output = 0;
    ((losses_.of_output[static_cast<std::size_t>(output)] = detail::bound_loss<S>(terms, mean_of(terms, output)),
      ++output),
     ...);
  }
  template <class Loss, class L, class W>
  LossMean mean_of(const LossTerm<Loss, L, W>& term, int output) const;

  /// Runs the launches from `begin` to before `end`. `fields` is the evaluation's FieldContext.
  void run(int begin, int end, void* fields) {
    for (int i = begin; i < end; ++i) run(i, {fields, &losses_});
  }

 private:
  /// The parameters that a launch reads and the gradients that it sums. Sharded ones are in memory only for such a
  /// launch. A gradient that is in separate memory (Workspace) is set to zero here, and add_gradients() adds it to the
  /// parameter's gradient.
  LaunchParameters<T> parameters_of(const Launch& launch) {
    LaunchParameters<T> found;
    T* beside = operands_.template workspace<T>(layout_.workspace().shared_gradients);
    for (int i = 0; i < launch.parameters.size(); ++i) {
      const ParameterUse& use = launch.parameters[i];
      found.values[i] = parameters_.values_of(use.parameter);
      found.is_piece[i] = parameters_.is_piece(use.parameter);
      if (!use.gradient) {
        found.value[i] = parameters_.value(use.parameter);
      } else if (lies_beside(launch, use.parameter)) {
        found.gradient[i] = std::exchange(beside, beside + plan_.graph.parameters[use.parameter].count);
        set_zero(use.parameter, found.gradient[i]);
      } else {
        found.gradient[i] = parameters_.gradient(use.parameter);
      }
    }
    return found;
  }

  void run(int i, const LaunchExtras<S>& extras);
  /// Starts the exchange and finishes the sums of launch i after its kernel has run.
  void finish_launch(int i);

  /// Whether sums over ranks count what this rank has of a level. Points count on every rank. Vectors are equal on
  /// several ranks and count on one.
  bool counts_points_of(int level) const { return !layout_.level(level).whole || meshes_.plane.rank() == 0; }
  bool trains(int parameter) const { return !plan_.graph.parameters[parameter].buffer; }
  bool lies_beside(const Launch& launch, int parameter) const {
    return layout_.workspace().lies_beside(plan_, launch, parameter);
  }
  bool is_shared(int parameter, int node) const { return layout_.workspace().is_shared(parameter, node); }
  void set_zero(int parameter, T* gradient) {
    launch_range(space_, "halogen::no_gradient", parameters_.values_of(parameter), kernels::SetZero<T>{gradient});
  }
  /// Adds gradients from separate memory to the gradients of the parameters. These are summed over ranks later, so a
  /// share that another rank also has is dropped.
  void add_gradients(const Launch& launch, const LaunchParameters<T>& at);
  void finish_affine_sums(const Launch& launch, index_t tiles);

  LaunchTable<S> table_;
  Space space_;
  Layout layout_;
  const Plan& plan_;
  detail::SubMeshes meshes_;
  std::shared_ptr<Arena> arena_;
  Operands<S> operands_;
  detail::AffineCollectives<T> affines_;
  RankSums rank_sums_;
  FetchedBoxes<S> fetched_;
  std::optional<detail::HaloSchedule<S>> halos_;
  StepLosses<S> losses_;
  RandomStream random_;
  std::vector<char> affine_has_gradient_, has_gradient_;  ///< whether affines and parameters have a gradient so far
  bool keeps_statistics_;  ///< false for a vjp plan unless set, because the caller may run forward once more
  Access parameters_;
  std::function<void(int)> watcher_;
};

template <class S, class Access>
EvaluationParts<S, Access>::EvaluationParts(Layout layout, const detail::SubMeshes& meshes,
                                            std::shared_ptr<Arena> arena, Access access, const LaunchTable<S>& table)
    : table_(table),
      layout_(std::move(layout)),
      plan_(layout_.plan()),
      meshes_(meshes),
      arena_(std::move(arena)),
      operands_(plan_, layout_, *arena_),
      affines_(plan_, layout_, meshes_),
      rank_sums_{meshes_.plane,
                 {"halogen::rank_sums", layout_.workspace().rank_sums(), Travels::in_collectives, meshes_.plane}},
      fetched_(meshes_.world),
      losses_{std::make_shared<LossSum>(meshes_.samples, plan_.graph.outputs)},
      affine_has_gradient_(static_cast<std::size_t>(plan_.affines.size())),
      has_gradient_(static_cast<std::size_t>(plan_.graph.parameters.size())),
      keeps_statistics_(!plan_.takes_cotangents()),
      parameters_(std::move(access)) {
  agree(meshes_.world, [&] { arena_->reserve(layout_.arena_bytes()), parameters_.reserve(); });
  halos_.emplace(plan_, layout_, operands_, meshes_.world);
}

template <class S, class Access>
void EvaluationParts<S, Access>::begin_forward(const InputViews<S>& inputs, T* parameters) {
  halos_->drop();
  operands_.set_arena(*arena_);
  operands_.bind_inputs(inputs);
  for (std::vector<char>* flags : {&affine_has_gradient_, &has_gradient_}) std::ranges::fill(*flags, char{0});
  for (int i = 0; i < plan_.graph.inputs; ++i) halos_->start(space_, plan_.tensor_of_input(i));
  parameters_.begin(parameters);
}

template <class S, class Access>
void EvaluationParts<S, Access>::begin_backward(const std::array<TensorView<S>, most_outputs>& cotangents,
                                                T* gradient) {
  parameters_.begin_backward(gradient);
  operands_.bind_cotangents(cotangents);
  for (int i = 0; i < plan_.graph.outputs; ++i) halos_->start(space_, plan_.cotangent[i]);
}

template <class S, class Access>
void EvaluationParts<S, Access>::end_backward() {
  halos_->finish(space_);
  parameters_.finish();
}

template <class S, class Access>
void EvaluationParts<S, Access>::run(int i, const LaunchExtras<S>& extras) {
  const Launch& launch = plan_.launches[i];
  parameters_.before(i);
  const LaunchParameters<T> parameters = parameters_of(launch);
  table_.run(layout_.chosen() == nullptr ? i : layout_.chosen()->former(i),
             {space_, plan_, layout_, operands_, *halos_, rank_sums_, fetched_, i, parameters, random_, extras});
  add_gradients(launch, parameters);
  finish_launch(i);
  parameters_.after(i);
  if (watcher_) watcher_(i);
}

template <class S, class Access>
void EvaluationParts<S, Access>::finish_launch(int i) {
  const Launch& launch = plan_.launches[i];
  for (const TensorId written : {launch.output, launch.kept})
    if (written >= 0 && plan_.tensors[written].last_write == i) halos_->start(space_, written);
  const index_t tiles = layout_.workspace().tiling(i).count() / layout_.samples();  // of a sample
  if (launch.statistics >= 0) {
    const AffineTable& affine = plan_.affines[launch.statistics];
    const bool has_gamma = affine.parameter >= 0;
    kernels::RunningMoments<T> running;
    if (affine.running >= 0 && keeps_statistics_)
      running = {parameters_.buffer(affine.running), parameters_.buffer(affine.running + 1), affine.momentum};
    affines_.finish_moments(space_, launch.statistics, operands_.partial_sums(), tiles,
                            has_gamma ? parameters_.value(affine.parameter) : nullptr,
                            has_gamma ? parameters_.value(affine.parameter + 1) : nullptr,
                            operands_.tables(launch.statistics, {}), running);
  }
  if (launch.sums >= 0) finish_affine_sums(launch, tiles);
}

template <class S, class Access>
void EvaluationParts<S, Access>::add_gradients(const Launch& launch, const LaunchParameters<T>& at) {
  const bool drop = launch.level >= 0 && !counts_points_of(launch.level);
  for (int i = 0; i < launch.parameters.size(); ++i) {
    const int parameter = launch.parameters[i].parameter;
    if (!launch.parameters[i].gradient || !trains(parameter)) continue;
    const bool beside = lies_beside(launch, parameter);
    const bool first = std::exchange(has_gradient_[static_cast<std::size_t>(parameter)], char{1}) == 0;
    if ((beside ? first : drop) && !is_shared(parameter, launch.node))
      set_zero(parameter, parameters_.gradient(parameter));
    if (beside && !drop)
      launch_range(space_, "halogen::add_gradient", parameters_.values_of(parameter),
                   kernels::AddArrays<T>{parameters_.gradient(parameter), at.gradient[i]});
  }
}

template <class S, class Access>
void EvaluationParts<S, Access>::finish_affine_sums(const Launch& launch, index_t tiles) {
  const AffineTableId affine = plan_.activations[launch.sums].affine;
  const int gamma = plan_.affines[affine].parameter;
  const bool has_gamma = gamma >= 0;
  const bool again = std::exchange(affine_has_gradient_[static_cast<std::size_t>(affine.number)], char{1}) != 0 ||
                     (has_gamma && is_shared(gamma, plan_.affines[affine].node));
  const auto gradient_of = [&](int parameter) {
    return has_gamma && trains(parameter) ? parameters_.gradient(parameter) : nullptr;
  };
  affines_.finish_sums(space_, affine, operands_.partial_sums(), tiles, has_gamma ? parameters_.value(gamma) : nullptr,
                       gradient_of(gamma), gradient_of(gamma + 1), again, operands_.tables(affine, launch.sums),
                       layout_.points_of(affine));
}

template <class S, class Access>
template <class Loss, class L, class W>
LossMean EvaluationParts<S, Access>::mean_of(const LossTerm<Loss, L, W>& term, int output) const {
  if (losses_.sum->of_parts()) return losses_.sum->means()[static_cast<std::size_t>(output)];
  const StoredTensor& prediction = plan_.tensors[plan_.prediction[output]];
  const auto samples = static_cast<double>(layout_.batch_cut().extent());
  return halogen::mean_of<T>(term, prediction.channels, samples,
                             samples * static_cast<double>(layout_.level(prediction.level).points()));
}

}  // namespace halogen
