// evaluate(loss, prediction, label, weight): a loss of fields that are there, without a gradient.
//
//   prediction, label, weight: as a step takes them; all three alike placed and cut  ->  a number, on all ranks
//   collectives: those of the loss (train/loss.hpp). Allocates: it is for validation, not for a loop of steps.
#pragma once

#include "halogen/run/launch_place.hpp"
#include "halogen/train/expression_step.hpp"
#include "halogen/train/loss.hpp"

namespace halogen {
namespace detail {

/// Tiles over a field's own points, as launches over its level have them; one point a sample for vectors.
template <class Field>
kernels::Tiling tiles_of(const Field& field) {
  constexpr int rank = Field::rank;
  const Interval rows = rank > 3 ? field.owned(rank - 2) : Interval{0, 1},
                 columns = rank > 2 ? field.owned(rank - 1) : Interval{0, 1};
  const auto planes = rank == 5 ? field.local_extent(2) : index_t{1};
  return {rows, columns, static_cast<int>(field.local_extent(0) * planes), TileSizes::rows,
          std::max(index_t{1}, columns.size())};
}

template <class Field>
void check_beside(const Field& field, const auto& prediction, const char* what) {
  for (int d = 0; d < Field::rank; ++d)
    if (d != 1)
      check_cut_as("evaluate: ", std::string("the ") + what, d, field.cut(d), "the prediction", prediction.cut(d),
                   "make it with the prediction's cuts");
}

/// The sums of a loss of one output. Collectives: as evaluate. Weights of a batch may sum to 0 here.
template <class Loss, class Prediction, class Label, class Weight>
LossTotal total_of(const Loss& loss, const Prediction& prediction, const Label& label, const Weight& weight) {
  using T = compute_type<typename Prediction::value_type>;
  require_values<Prediction>(), require_values<Label>(), require_values<Weight>();
  static_assert(label_channels<Loss, Label>(Prediction::tensor_type::extents[1]) == Label::tensor_type::extents[1],
                "label_channels_differ: give a label of as many channels as the loss compares");
  require_made("evaluate", prediction, label, weight);
  check_beside(label, prediction, "label");
  if constexpr (!std::is_same_v<Weight, NoWeight>) check_beside(weight, prediction, "weight");
  const execution_space space;
  const int channels = Prediction::tensor_type::extents[1];
  const auto term = loss_term<T>(loss, channels, label, weight);
  const kernels::Tiling tiling = tiles_of(prediction);
  const Kokkos::View<double*, memory_space> partial("halogen::losses", static_cast<std::size_t>(tiling.count()));
  const Prediction gradient(prediction.shape(), Prediction::Start::unwritten);
  const auto samples = static_cast<double>(prediction.extent(0));
  double points = samples;
  for (int d = 2; d < Prediction::rank; ++d) points *= static_cast<double>(prediction.extent(d));
  const LossMean mean = mean_of<T>(term, channels, samples, points);
  LossSum sum(sub_meshes(prediction).samples, 1);
  sum.begin(space, {mean});
  if (mean.weighted) {
    launch_weights(space, term, channels, tiling, partial.data());
    sum.add_weights(space, 0, partial.data(), tiling.count());
    sum.sum_weights(space, false);
  }
  launch_loss(space, term, view_of(prediction), view_of(gradient), channels, tiling, mean, sum.weight_of(0),
              partial.data());
  sum.add_losses(space, 0, partial.data(), tiling.count());
  sum.sum_losses(space);
  return sum.totals(space)[0];
}

}  // namespace detail

/// Of an expression loss: its number.
template <class F, class Prediction, class Label, class Weight = NoWeight>
  requires(is_sharded<Prediction>)
double evaluate(const ExpressionLoss<F>& loss, const Prediction& prediction, const Label& label,
                const Weight& weight = no_weight) {
  detail::require_made("evaluate", prediction, label, weight);
  return as_expression(detail::loss_expression(loss, label, weight, prediction)).item();
}
template <class F, class... Predictions, class Label, class Weight = NoWeight>
double evaluate(const ExpressionLoss<F>& loss, const std::tuple<Predictions...>& predictions, const Label& label,
                const Weight& weight = no_weight) {
  return std::apply(
      [&](const auto&... each) {
        detail::require_made("evaluate", each..., label, weight);
        return as_expression(detail::loss_expression(loss, label, weight, each...)).item();
      },
      predictions);
}

template <class Loss, class Prediction, class Label, class Weight = NoWeight>
  requires(is_sharded<Prediction> && is_sharded<Label> && Prediction::rank == Label::rank)
double evaluate(const Loss& loss, const Prediction& prediction, const Label& label, const Weight& weight = no_weight) {
  return detail::total_of(loss, prediction, label, weight).value();
}

/// Of several outputs: a tuple of predictions, as predict() returns it, with hg::Labels and hg::Weights.
template <class Loss, class... Predictions, class Label, class Weight = NoWeight>
double evaluate(const Loss& loss, const std::tuple<Predictions...>& predictions, const Label& labels,
                const Weight& weights = no_weight) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (evaluate(detail::one_of<static_cast<int>(I)>(loss), std::get<I>(predictions),
                     detail::one_of<static_cast<int>(I)>(labels), detail::one_of<static_cast<int>(I)>(weights)) +
            ...);
  }(std::index_sequence_for<Predictions...>{});
}

namespace detail {

/// Adds the sums of a batch's losses to `totals`, one for each output, whose values sum to the loss of all batches. Of
/// an expression loss, which has no sums, a batch counts by its samples.
template <class F, class Prediction, class Label, class Weight>
void add_totals(std::vector<LossTotal>& totals, const ExpressionLoss<F>& loss, const Prediction& prediction,
                const Label& label, const Weight& weight, index_t samples) {
  totals.resize(1);
  const auto count = static_cast<double>(samples);
  totals[0].add({{.divisor = count}, count * evaluate(loss, prediction, label, weight)});
}
template <class Loss, class Prediction, class Label, class Weight>
void add_totals(std::vector<LossTotal>& totals, const Loss& loss, const Prediction& prediction, const Label& label,
                const Weight& weight, index_t) {
  totals.resize(1);
  totals[0].add(total_of(loss, prediction, label, weight));
}
template <class Loss, class... Predictions, class Label, class Weight>
  requires(!is_expression_loss<Loss>)
void add_totals(std::vector<LossTotal>& totals, const Loss& loss, const std::tuple<Predictions...>& predictions,
                const Label& label, const Weight& weight, index_t) {
  totals.resize(sizeof...(Predictions));
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (totals[I].add(total_of(one_of<static_cast<int>(I)>(loss), std::get<I>(predictions),
                            one_of<static_cast<int>(I)>(label), one_of<static_cast<int>(I)>(weight))),
     ...);
  }(std::index_sequence_for<Predictions...>{});
}

}  // namespace detail

}  // namespace halogen
