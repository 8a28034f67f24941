// Runs a plan: launches in order, exchanges begun when a tensor is complete and awaited by its first reader.
#pragma once

#include <memory>
#include <utility>

#include "halogen/run/evaluation_parts.hpp"

namespace halogen {

/// A plan laid out on this rank, with its exchanges prepared. PlanOf::plan() is the constexpr plan (trace.hpp); S the
/// value type of all that is stored or sent of fields, T = compute_type<S> that of parameters and of all computations;
/// Access finds the parameters. Image: the fields' type, where launches evaluate expressions of fields. Everything is
/// reused from run to run: from the second on nothing is allocated.
template <class PlanOf, class S, class Access = WholeParameters<compute_type<S>>, class Image = void>
class Evaluation : public EvaluationParts<S, Access> {
  using Parts = EvaluationParts<S, Access>;
  using T = compute_type<S>;

 public:
  using stored_type = S;
  static constexpr int outputs = PlanOf::plan().graph.outputs;

  Evaluation(Layout layout, const SubMeshes& meshes, std::shared_ptr<Arena> arena, Access access = Access(plan()),
             FieldContext<Image> context = {})
      : Parts(plan(), std::move(layout), meshes, std::move(arena), std::move(access)), context_(std::move(context)) {}

  /// Forward launches: afterwards prediction(i) holds output i until the next run.
  /// Statistics of a batch that are kept are written among the parameters, where a plan trains without a cotangent.
  void forward(const InputViews<S>& inputs, T* parameters) {
    Parts::begin_forward(inputs, parameters);
    run_range<0, first_backward>();
    Parts::end_forward();
  }

  /// The loss of each output and all backward launches; `gradient` (parameters' layout) gets this rank's sums, or this
  /// rank's piece of all ranks' where Access reduces. terms: LossTerm, one for each output.
  template <class... Terms>
  void backward(T* gradient, const Terms&... terms) {
    Parts::begin_backward(gradient);
    Parts::run_losses(terms...);
    run_range<first_backward + static_cast<int>(sizeof...(Terms)), static_cast<int>(forms.size())>();
    Parts::end_backward();
  }

  /// The same of a vjp plan: from the predictions' gradients, of their cuts, with room for the margins of those
  /// tensors.
  void backward(const std::array<TensorView<S>, most_outputs>& cotangents, T* gradient) {
    Parts::begin_backward(cotangents, gradient);
    run_range<first_backward, static_cast<int>(forms.size())>();
    Parts::end_backward();
  }

  /// Not constexpr: nvcc would evaluate each look into it beforehand, and keep a copy of the whole plan, 2 MB, for
  /// each.
  static const Plan& plan() { return PlanOf::plan(); }

 private:
  static constexpr int first_backward = PlanOf::plan().first_backward;
  static constexpr std::array forms = launch_forms<PlanOf::plan().launches.size()>(PlanOf::plan());

  template <int Begin, int End>
  void run_range() {
    [this]<int... I>(std::integer_sequence<int, I...>) {
      (Parts::template run<detail::type_of_address<forms[Begin + I].type>, forms[Begin + I].form>(Begin + I, context_),
       ...);
    }(std::make_integer_sequence<int, End - Begin>{});
  }

  FieldContext<Image> context_;
};

}  // namespace halogen
