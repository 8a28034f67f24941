// The two numbers of a loss: the weights' sum and the sum of what the points lose.
#pragma once

#include <string>

#include "halogen/core/config.hpp"
#include "halogen/kernels/loss.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// As torch.nn's `reduction`; batch_mean: the sum by the number of samples, as nn.KLDivLoss has it.
enum class LossReduction { mean, sum, batch_mean };

/// How a loss follows from the sums: divided by `divisor`, and by the weights' sum where it is `weighted`.
struct LossMean {
  double divisor = 1;
  bool weighted = false;
  bool of_classes = false;  ///< labels weigh too
};

/// Both are summed by kernels into memory that kernels and the transport read. One rank needs them on the device alone,
/// and so do many whose transport takes its place in the stream: there the host waits in value() and nowhere else.
class LossSum {
 public:
  explicit LossSum(Communicator ranks)
      : ranks_(std::move(ranks)), sums_("halogen::loss", 2, Travels::in_collectives, ranks_) {}

  /// The weights' sum over all ranks: where the next kernels read it.
  const double* add_weights(const execution_space& space, const double* partial, index_t count, bool of_classes);

  /// What all points lose, of which the loss will be this mean.
  void add_losses(const execution_space& space, const double* partial, index_t count, const LossMean& mean);

  /// The sum that weights the last step; null without weights.
  const double* weight_of_step() const { return mean_.weighted ? sums_.data() + weights : nullptr; }

  /// Of the last step; a step that is started again without the host says which it was.
  const LossMean& mean() const { return mean_; }
  void set_mean(const LossMean& mean) { mean_ = mean; }

  /// The loss, the same on all ranks; waits. Throws CollectiveError where the weights do not sum to something positive,
  /// Error where the transport has failed meanwhile.
  double value(const execution_space& space);

 private:
  enum Slot { weights, losses };

  double* weight_sum() const { return sums_.data() + weights; }

  void add(const execution_space& space, const double* partial, index_t count, Slot slot) const {
    kernels::SumInOrder<execution_space>{partial, count, sums_.data() + slot}.launch(space);
  }

  static void check(double weight_sum, bool of_classes);

  Communicator ranks_;
  TransportBuffer<double> sums_;
  Request request_;
  LossMean mean_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE const double* LossSum::add_weights(const execution_space& space, const double* partial, index_t count,
                                                  bool of_classes) {
  request_.wait();
  add(space, partial, count, weights);
  if (ranks_.size() > 1) {
    settle(space, ranks_, "halogen::weight_sum");
    ranks_.all_reduce(weight_sum(), 1);
  }
  // On the host launches have ended, and MPI's sum has arrived in memory of the host.
  if (runs_on_host || (ranks_.size() > 1 && !ranks_.stream_ordered())) check(*weight_sum(), of_classes);
  return weight_sum();
}

HALOGEN_INLINE void LossSum::add_losses(const execution_space& space, const double* partial, index_t count,
                                        const LossMean& mean) {
  request_.wait();
  add(space, partial, count, losses);
  mean_ = mean;
  if (ranks_.size() == 1) return;
  settle(space, ranks_, "halogen::loss");
  request_ = ranks_.all_reduce_async(sums_.data() + losses, 1);
}

HALOGEN_INLINE double LossSum::value(const execution_space& space) {
  request_.wait();
  const auto sums = sums_.to_host<2>(space, "halogen::loss");
  ranks_.check_health();
  if (!mean_.weighted) return sums[losses] / mean_.divisor;
  check(sums[weights], mean_.of_classes);
  return sums[losses] / (sums[weights] * mean_.divisor);
}

HALOGEN_INLINE void LossSum::check(double weight_sum, bool of_classes) {
  if (of_classes && !(weight_sum > 0))
    throw CollectiveError((weight_sum == 0
                               ? "no label counts in the loss: all are ignored, or of weight 0"
                               : "a label is no class of the prediction, or a weight is NaN or less than 0") +
                          std::string("; labels are 0 to the number of channels less 1, or ignore_index"));
  if (!(weight_sum > 0))
    throw CollectiveError("the loss weights sum to " + std::to_string(weight_sum) +
                          ": at least one must be positive, none NaN");
}
#endif

}  // namespace halogen
