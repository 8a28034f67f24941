// The numbers of a loss: for each output of a model, the sum of the weights and the sum of the losses of the points.
#pragma once

#include <array>
#include <string>

#include "halogen/core/config.hpp"
#include "halogen/core/loss_reduction.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/sums/maps_and_vectors.hpp"
#include "halogen/kernels/training/loss.hpp"
#include "halogen/tensor/rank_sums.hpp"

namespace halogen {

/// The loss of one output: the numbers for its kernel, and the fields that it compares with.
template <class Loss, class L, class W>
struct LossTerm {
  Loss loss;
  LossReduction reduction;
  double factor;
  TensorView<L> label;
  TensorView<W> weight;  ///< null: 1 everywhere
};

/// How the loss of an output follows from its sums. The sum is multiplied by `factor` and divided by `divisor`. If it
/// is `weighted`, it is also divided by the sum of the weights.
struct LossMean {
  double factor = 1, divisor = 1;
  LossReduction reduction = LossReduction::mean;
  bool weighted = false;
  bool of_classes = false;  ///< labels have weights too
};
/// One for each output of a model.
using LossMeans = std::array<LossMean, most_outputs>;

/// The LossMean of a loss that is computed in T. The prediction has so many channels, samples and points over all
/// ranks.
template <class T, class Loss, class L, class W>
LossMean mean_of(const LossTerm<Loss, L, W>& term, int channels, double samples, double points) {
  LossMean mean;
  mean.factor = term.factor;
  mean.reduction = term.reduction;
  if (term.reduction == LossReduction::batch_mean) mean.divisor = samples;
  if (term.reduction != LossReduction::mean) return mean;
  mean.of_classes = kernels::WeighsLabels<Loss, L>;
  mean.weighted = mean.of_classes || term.weight.data != nullptr;
  mean.divisor = kernels::counted_of<Loss, T>(term.loss, channels) * (mean.weighted ? 1 : points);
  return mean;
}

/// The sums of an output's loss over one batch or several. Of several the loss is that of all their points; with
/// LossReduction::sum it is the mean of the batches' sums.
struct LossTotal {
  LossMean mean{.divisor = 0};
  double losses = 0, weights = 0;

  void add(const LossTotal& batch) {
    const double divisor = batch.mean.weighted ? 0 : mean.divisor;  // what the sum of weights is divided by stays
    mean = batch.mean;
    mean.divisor += divisor;
    losses += batch.losses;
    weights += batch.weights;
  }
  /// Throws CollectiveError if the weights do not sum to something positive.
  double value() const;
};

/// What the losses of a batch were divided by: means[i].divisor, and where weights[i] is not null also by *weights[i],
/// which is in memory of kernels.
struct LossDivisors {
  int outputs = 1;
  LossMeans means{};
  std::array<const double*, most_outputs> weights{};
};

namespace detail {
/// Throws CollectiveError if a sum of weights is not positive.
void check_loss_weights(double sum, bool of_classes);

/// Sums the weights of the points of these tiles in the mean, one number for each tile.
template <class Loss, class L, class W>
void launch_weights(const execution_space& space, const LossTerm<Loss, L, W>& term, int channels,
                    const kernels::Tiling& tiling, double* partial) {
  using Sum = kernels::WeightSum<execution_space, Loss, L, W>;
  kernels::launch_tiles(space, "halogen::weight_sum", tiling.count(),
                        Sum{term.loss, term.label, term.weight, channels, tiling, partial}, 0,
                        kernels::device::reduce_bytes);
}
/// Sums the losses of the points and writes the gradient. weight_sum is the sum over all ranks, null without weights.
template <class S, class Loss, class L, class W>
void launch_loss(const execution_space& space, const LossTerm<Loss, L, W>& term, const TensorView<S>& prediction,
                 const TensorView<S>& gradient, int channels, const kernels::Tiling& tiling, const LossMean& mean,
                 const double* weight_sum, double* partial) {
  const kernels::LossRows<execution_space, S, Loss, L, W> kernel{term.loss,    prediction, term.label, term.weight,
                                                                 gradient,     channels,   tiling,     mean.factor,
                                                                 mean.divisor, weight_sum, partial};
  kernels::launch_tiles(space, "halogen::loss", tiling.count(), kernel, 0, kernels::device::reduce_bytes);
}
}  // namespace detail

/// The sums of a step's loss. Kernels write them to memory that kernels and the transport can read. The host waits for
/// them only in value(), if there is one rank or if the transport puts its sums in the stream. In the memory are the
/// sums of the weights of all outputs, the least of these, and the sums of the losses of all outputs.
///
/// A step whose samples run in parts has one LossSum for all parts. Who runs the parts begins it, sums the weights
/// before the first part and the losses after the last one.
class LossSum {
 public:
  LossSum(Communicator ranks, int outputs, bool of_parts = false)
      : outputs_(outputs),
        of_parts_(of_parts),
        ranks_(std::move(ranks)),
        sums_("halogen::loss", most_sums, Travels::in_collectives, ranks_) {}

  /// Adds up `count` numbers of this rank: weights of an output's points, or their losses.
  void add_weights(const execution_space& space, int output, const double* partial, index_t count) {
    add(space, partial, count, output);
  }
  void add_losses(const execution_space& space, int output, const double* partial, index_t count) {
    add(space, partial, count, of_parts_ ? of_part() : losses() + output);
    if (of_parts_)
      launch_range(space, "halogen::add_loss", 1,
                   kernels::AddArrays<double>{sums_.data() + losses() + output, sums_.data() + of_part()});
  }

  /// Whether its step runs in parts.
  bool of_parts() const { return of_parts_; }

  /// Call this before the sums of a step.
  void begin(const execution_space& space, const LossMeans& means) {
    request_.wait();
    means_ = means;
    if (of_parts_) launch_range(space, "halogen::no_loss", outputs_, kernels::SetZero<double>{sums_.data() + losses()});
  }
  /// Sums the weights over all ranks, if any output has weights. `checked`: throws, where the host knows the sums now.
  void sum_weights(const execution_space& space, bool checked = true);
  /// Sums the losses over all ranks.
  void sum_losses(const execution_space& space);

  /// Where kernels read the sum of an output's weights; null without weights.
  const double* weight_of(int output) const {
    return means_[static_cast<std::size_t>(output)].weighted ? sums_.data() + output : nullptr;
  }
  /// The least of the sums by which the last step is weighted. If it is not positive, nothing may be updated. Null
  /// without weights.
  const double* weight_of_step() const;

  /// The LossMeans of the last step. A step that is repeated without the host sets them.
  const LossMeans& means() const { return means_; }
  void set_means(const LossMeans& means) { means_ = means; }

  LossDivisors divisors() const {
    LossDivisors divisors{outputs_, means_};
    for (int i = 0; i < outputs_; ++i) divisors.weights[static_cast<std::size_t>(i)] = weight_of(i);
    return divisors;
  }

  /// The sums of each output, the same on all ranks. Waits for them. Throws Error if the transport has failed.
  std::array<LossTotal, most_outputs> totals(const execution_space& space);
  /// The loss. Throws CollectiveError if a sum of weights is not positive too.
  double value(const execution_space& space) {
    double loss = 0;
    const std::array<LossTotal, most_outputs> all = totals(space);
    for (int i = 0; i < outputs_; ++i) loss += all[static_cast<std::size_t>(i)].value();
    return loss;
  }

 private:
  static constexpr int most_sums = 2 * most_outputs + 2;

  int losses() const { return outputs_ + 1; }
  int of_part() const { return most_sums - 1; }  ///< the losses of a part's output
  int weighted() const {
    int count = 0;
    for (const LossMean& mean : means_) count += mean.weighted;
    return count;
  }

  void add(const execution_space& space, const double* partial, index_t count, int slot) const {
    kernels::sum_arrays(space, "halogen::sum", partial, count, sums_.data() + slot);
  }

  int outputs_;
  bool of_parts_;
  Communicator ranks_;
  TransportBuffer<double> sums_;
  Request request_;
  LossMeans means_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE void LossSum::sum_weights(const execution_space& space, bool checked) {
  if (weighted() == 0) return;
  sum_over_ranks(space, ranks_, "halogen::weight_sum", sums_.data(), outputs_);
  // On the host the launches have ended, and the sum of MPI has arrived in host memory.
  if (checked && (runs_on_host || (ranks_.size() > 1 && !ranks_.stream_ordered())))
    for (int i = 0; i < outputs_; ++i)
      if (weight_of(i) != nullptr)
        detail::check_loss_weights(*weight_of(i), means_[static_cast<std::size_t>(i)].of_classes);
  if (outputs_ == 1) return;
  kernels::LeastOf least{sums_.data(), {}, outputs_, sums_.data() + outputs_};
  for (int i = 0; i < outputs_; ++i) least.counts[i] = weight_of(i) != nullptr;
  launch_range(space, "halogen::least_weight", 1, least);
}

HALOGEN_INLINE void LossSum::sum_losses(const execution_space& space) {
  request_ = start_sum_over_ranks(space, ranks_, "halogen::loss", sums_.data() + losses(), outputs_);
}

HALOGEN_INLINE const double* LossSum::weight_of_step() const {
  if (weighted() == 0) return nullptr;
  return sums_.data() + (outputs_ > 1 ? outputs_ : 0);
}

HALOGEN_INLINE std::array<LossTotal, most_outputs> LossSum::totals(const execution_space& space) {
  request_.wait();
  const auto sums = sums_.to_host<most_sums>(space, "halogen::loss");
  ranks_.check_health();
  std::array<LossTotal, most_outputs> all;
  for (int i = 0; i < outputs_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    all[at] = {means_[at], sums[static_cast<std::size_t>(losses() + i)], means_[at].weighted ? sums[at] : 0};
  }
  return all;
}

HALOGEN_INLINE double LossTotal::value() const {
  if (mean.weighted) detail::check_loss_weights(weights, mean.of_classes);
  return mean.factor * (losses / ((mean.weighted ? weights : 1) * mean.divisor));
}

HALOGEN_INLINE void detail::check_loss_weights(double weight_sum, bool of_classes) {
  if (of_classes && !(weight_sum > 0))
    throw CollectiveError((weight_sum == 0
                               ? "no label counts in the loss: all are ignored, or of weight 0"
                               : "a label is no class of the prediction, or a weight is NaN or less than 0") +
                          std::string("; labels are 0 to the number of channels less 1, or ignore_index"));
  if (!(weight_sum > 0))
    throw CollectiveError("the loss weights sum to " + number_text(weight_sum) +
                          ": at least one must be positive, none NaN");
}
#endif

}  // namespace halogen
