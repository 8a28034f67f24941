// Runs a plan: launches in order, exchanges begun when a tensor is complete and awaited by its first reader.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "halogen/expr/arena.hpp"
#include "halogen/expr/collectives.hpp"
#include "halogen/expr/halo_schedule.hpp"
#include "halogen/expr/launch_form.hpp"
#include "halogen/expr/layout.hpp"
#include "halogen/expr/loss_sum.hpp"
#include "halogen/expr/row_launches.hpp"
#include "halogen/expr/tap_launches.hpp"
#include "halogen/expr/whole_parameters.hpp"
#include "halogen/expr/window_launches.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {

/// A plan laid out on this rank, with its exchanges prepared. PlanOf::plan() is the constexpr plan (trace.hpp); S the
/// value type of all that is stored or sent of fields, T = compute_type<S> that of parameters and of all computations;
/// Access finds the parameters. Everything is reused from run to run: from the second on nothing is
/// allocated.
template <class PlanOf, class S, class Access = WholeParameters<compute_type<S>>>
class Evaluation {
  using Space = execution_space;
  using T = compute_type<S>;

 public:
  Evaluation(Layout layout, const SubMeshes& meshes, std::shared_ptr<Arena> arena, Access access = Access(plan()))
      : layout_(std::move(layout)),
        meshes_(meshes),
        arena_(std::move(arena)),
        operands_(plan(), layout_, *arena_),
        norms_(plan(), layout_, meshes_.plane),
        loss_(meshes_.samples),
        parameters_(std::move(access)) {
    agree(meshes_.world, [&] { arena_->reserve(layout_.arena_bytes()), parameters_.reserve(); });
    halos_.emplace(plan(), layout_, operands_, meshes_.world);
  }

  Evaluation(const Evaluation&) = delete;  // operands refer to the layout
  Evaluation& operator=(const Evaluation&) = delete;

  const Layout& layout() const { return layout_; }

  /// Forward launches: afterwards prediction() holds the output until the next run.
  void forward(const TensorView<S>& input, const T* parameters) {
    begin(input);
    parameters_.begin(parameters);
    run_range<0, first_backward>();
    halos_->send();
  }

  /// The loss launch and all backward launches; `gradient` (parameters' layout) gets this rank's sums, or this rank's
  /// piece of all ranks' where Access reduces.
  template <class Loss, class L, class W>
  void backward(const TensorView<L>& label, const TensorView<W>& weight, T* gradient) {
    parameters_.begin_backward(gradient);
    run_loss<Loss>(label, weight);
    run_backward<first_backward + 1>();
  }

  /// The same input, which lies elsewhere since forward.
  void rebind_input(const TensorView<S>& input) { operands_.bind_input(input); }

  /// The same of a vjp plan: from the prediction's gradient, of its cut, with room for the margins of that tensor.
  void backward(const TensorView<S>& cotangent, T* gradient) {
    parameters_.begin_backward(gradient);
    operands_.bind_cotangent(cotangent);
    halos_->start(space_, plan().cotangent);
    run_backward<first_backward>();
  }

  /// Not constexpr: nvcc would evaluate each look into it beforehand, and keep a copy of the whole plan, 2 MB, for
  /// each.
  static const Plan& plan() { return PlanOf::plan(); }

  /// Copies a stored tensor's owned points (the prediction's, the input gradient's) to a field of the same cut.
  void copy_tensor(int tensor, const TensorView<S>& to) const {
    copy_stored(space_, plan(), layout_, operands_, tensor, to);
  }

  TensorView<S> prediction() const { return operands_.tensor(plan().prediction); }

  /// This rank's and all ranks' loss; waits for the device and the one small sum.
  double loss() { return loss_.value(space_); }
  /// What the loss of the last step is made of, for a step that is started again without the host.
  const LossMean& loss_mean() const { return loss_.mean(); }
  void set_loss_mean(const LossMean& mean) { loss_.set_mean(mean); }
  /// Where kernels find the sum of the last step's weights, null without: if it is not positive, nothing may be
  /// updated.
  const double* loss_weight() const { return loss_.weight_of_step(); }

 private:
  static constexpr int first_backward = PlanOf::plan().first_backward;
  static constexpr std::array forms = launch_forms<PlanOf::plan().launches.size()>(PlanOf::plan());

  // -- run --------------------------------------------------------------------------------------------------------
  void begin(const TensorView<S>& input) {
    halos_->drop();
    operands_.set_arena(*arena_);
    operands_.bind_input(input);
    std::fill(norm_has_gradient_.begin(), norm_has_gradient_.end(), char{0});
    halos_->start(space_, 0);
  }

  template <int Begin>
  void run_backward() {
    run_range<Begin, static_cast<int>(forms.size())>();
    halos_->finish(space_);
    parameters_.finish();
  }

  template <int Begin, int End>
  void run_range() {
    [this]<int... I>(std::integer_sequence<int, I...>) {
      (this->template run<forms[Begin + I]>(Begin + I), ...);
    }(std::make_integer_sequence<int, End - Begin>{});
  }

  template <LaunchForm Form>
  void run(int i) {
    const Launch& launch = plan().launches[i];
    const Node& node = plan().node_of(launch);
    parameters_.before(i);
    if constexpr (Form.by_taps)
      run_by_taps(i);
    else if constexpr (Form.kind == LaunchKind::conv_weight_gradient && Form.winograd > 0)
      launches<WindowLaunches>().weight_gradient(i, kernels::WinogradWeightGradient<Space, S, Form.winograd>{},
                                                 gradient_of(node));
    else if constexpr (Form.kind == LaunchKind::conv_weight_gradient)
      launches<WindowLaunches>().weight_gradient(
          i, kernels::WeightGradient<Space, S, Form.kernel_height, Form.kernel_width>{}, gradient_of(node));
    else if constexpr (Form.kind == LaunchKind::conv_forward)
      convolve<Form>(i, operands_.value_reader(launch.input, &node));
    else if constexpr (Form.weights)
      launches<WindowLaunches>().template convolve_with_weights<Form.winograd, Form.winograd_by_rows>(
          i, parameters_.value(node.parameter), gradient_of(node));
    else if constexpr (Form.kind == LaunchKind::conv_input_gradient)
      convolve<Form>(i, operands_.gradient_reader(launch));
    else
      launches<RowLaunches>().template run<Form.kind, Form.resampling>(i);
    finish_launch(i);
    parameters_.after(i);
  }

  template <template <class> class Kind>
  Kind<S> launches() {
    return {space_, plan(), layout_, operands_, *halos_};
  }

  const T* bias_of(const Launch& launch, const Node& node) {
    return launch.kind == LaunchKind::conv_forward && node.bias ? parameters_.value(node.parameter + 1) : nullptr;
  }
  T* gradient_of(const Node& node) { return parameters_.gradient(node.parameter); }

  void run_by_taps(int i) {
    const Launch& launch = plan().launches[i];
    const Node& node = plan().node_of(launch);
    if (launch.kind == LaunchKind::conv_weight_gradient)
      return launches<TapLaunches>().weight_gradient(i, gradient_of(node));
    launches<TapLaunches>().convolve(i, parameters_.value(node.parameter), bias_of(launch, node));
  }

  template <LaunchForm Form, class Reader>
  void convolve(int i, const Reader& reader) {
    const Launch& launch = plan().launches[i];
    const Node& node = plan().node_of(launch);
    const T *weights = parameters_.value(node.parameter), *bias = bias_of(launch, node);
    if constexpr (Form.winograd_by_rows)
      launches<WindowLaunches>().template convolve_rows<Form.winograd>(i, reader, weights, bias);
    else if constexpr (Form.winograd > 0)
      launches<WindowLaunches>().template convolve_tiles<Form.winograd>(i, reader, weights, bias);
    else
      launches<WindowLaunches>().template convolve<Form.kernel_height, Form.kernel_width>(i, reader, weights, bias);
  }

  // -- sums -------------------------------------------------------------------------------------------------------
  void finish_launch(int i) {
    const Launch& launch = plan().launches[i];
    if (launch.output >= 0 && plan().tensors[launch.output].last_write == i) halos_->start(space_, launch.output);
    const index_t tiles = layout_.workspace().tiling(i).count() / layout_.samples();  // of a sample
    if (launch.statistics >= 0) {
      const int gamma = plan().norms[launch.statistics].parameter;
      norms_.template finish_moments<T>(space_, launch.statistics, operands_.partial_sums(), tiles,
                                        parameters_.value(gamma), parameters_.value(gamma + 1),
                                        operands_.tables(launch.statistics, -1));
    }
    if (launch.sums >= 0) {
      const int norm = plan().activations[launch.sums].norm, gamma = plan().norms[norm].parameter;
      const bool again = std::exchange(norm_has_gradient_[static_cast<std::size_t>(norm)], char{1}) != 0;
      norms_.template finish_sums<T>(space_, norm, operands_.partial_sums(), tiles, parameters_.value(gamma),
                                     parameters_.gradient(gamma), parameters_.gradient(gamma + 1), again,
                                     operands_.tables(norm, launch.sums), layout_.points_of(norm));
    }
  }

  /// Loss and its seed: the weights' sum over all ranks first, so that the gradient is exact as written.
  template <class Loss, class L, class W>
  void run_loss(const TensorView<L>& label, const TensorView<W>& weight) {
    constexpr int i = first_backward;
    const Launch& launch = plan().launches[i];
    const int channels = plan().tensors[plan().prediction].channels;
    const kernels::Tiling& tiling = layout_.workspace().tiling(i);
    double* partial = operands_.template workspace<double>(layout_.workspace().loss_partials);
    const LevelLayout& level = layout_.level(plan().tensors[plan().prediction].level);
    double divisor = channels;
    const double* weight_sum = nullptr;
    if (weight.data == nullptr) {
      divisor *= static_cast<double>(layout_.batch_cut().extent()) * static_cast<double>(level.points());
    } else {
      kernels::launch_tiles(space_, "halogen::weight_sum", tiling.count(),
                            kernels::WeightSum<Space, W>{weight, tiling, partial}, 0, kernels::device::reduce_bytes);
      weight_sum = loss_.add_weights(space_, partial, tiling.count());
    }
    parameters_.before(i);
    kernels::LossRows<Space, S, Loss, L, W> kernel{
        prediction(), label, weight, operands_.tensor(launch.output), channels, tiling, divisor, weight_sum, partial};
    kernels::launch_tiles(space_, "halogen::loss", tiling.count(), kernel, 0, kernels::device::reduce_bytes);
    loss_.add_losses(space_, partial, tiling.count(), {divisor, weight_sum != nullptr});
    finish_launch(i);
  }

  Space space_;
  Layout layout_;
  SubMeshes meshes_;
  std::shared_ptr<Arena> arena_;
  Operands<S> operands_;
  NormCollectives norms_;
  std::optional<HaloSchedule<S>> halos_;
  LossSum loss_;
  std::vector<char> norm_has_gradient_ = std::vector<char>(static_cast<std::size_t>(plan().norms.size()));
  Access parameters_;
};

}  // namespace halogen
