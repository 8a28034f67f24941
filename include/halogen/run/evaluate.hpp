// Runs a plan: its launches in order. The exchange of a tensor begins when it is complete, and its first reader waits
// for it.
#pragma once

#include <memory>
#include <utility>

#include "halogen/run/evaluation_parts.hpp"

namespace halogen {

/// A plan on this rank, laid out and with prepared exchanges. PlanOf::plan() is the constexpr plan (trace.hpp). S is
/// the type of all values of fields that are stored or sent. T = compute_type<S> is the type of parameters and of all
/// computations. Access finds the parameters. Image is the type of the fields if launches evaluate expressions of
/// fields. All memory is used again in each run: from the second run on nothing is allocated.
template <class PlanOf, class S, class Access = WholeParameters<compute_type<S>>, class Image = void>
class Evaluation : public EvaluationParts<S, Access> {
  using Parts = EvaluationParts<S, Access>;
  using T = compute_type<S>;

 public:
  using stored_type = S;
  static constexpr int outputs = PlanOf::plan().graph.outputs;

  Evaluation(Layout layout, const detail::SubMeshes& meshes, std::shared_ptr<Arena> arena,
             Access access = Access(plan()), FieldContext<Image> context = {})
      : Parts(std::move(layout), meshes, std::move(arena), std::move(access), launch_table<PlanOf, S, Image>),
        context_(std::move(context)) {}

  /// Runs the forward launches. Afterwards prediction(i) holds output i until the next run. If the plan trains without
  /// a given cotangent, the running statistics are updated among the parameters.
  void forward(const InputViews<S>& inputs, T* parameters) {
    Parts::begin_forward(inputs, parameters);
    Parts::run(0, plan().first_backward, &context_);
    Parts::end_forward();
  }

  /// Computes the loss of each output and runs all backward launches. `gradient` is laid out like the parameters. It
  /// gets the sums of this rank or, if Access reduces, this rank's piece of the sums over all ranks. `terms` are
  /// LossTerm, one for each output.
  template <class... Terms>
  void backward(T* gradient, const Terms&... terms) {
    Parts::begin_backward(gradient);
    Parts::bind_losses(terms...);
    run_backward();
  }

  /// The same for a vjp plan, from the gradients of the predictions. They have the cuts of the predictions, and room
  /// for the margins of the plan's tensors.
  void backward(const std::array<TensorView<S>, most_outputs>& cotangents, T* gradient) {
    Parts::begin_backward(cotangents, gradient);
    run_backward();
  }

  /// Not constexpr, because nvcc would evaluate each access beforehand and keep a copy of the whole plan, 2 MB, for
  /// each.
  static const Plan& plan() { return PlanOf::plan(); }

 private:
  void run_backward() {
    Parts::run(plan().first_backward, this->layout().plan().launches.size(), &context_);
    Parts::end_backward();
  }

  FieldContext<Image> context_;
};

}  // namespace halogen
