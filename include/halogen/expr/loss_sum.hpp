// The two numbers of a loss: the weights' sum and the sum of what the points lose.
#pragma once

#include <string>

#include "halogen/comm/communicator.hpp"
#include "halogen/kernels/loss.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// Both are summed by kernels into memory that the transport, the host and kernels read. Launches of one rank need them
/// on the device alone, so there the host waits in value() and nowhere else; between ranks it carries them.
class LossSum {
 public:
  explicit LossSum(Communicator ranks) : ranks_(std::move(ranks)) {}

  /// The weights' sum over all ranks: where the next kernels read it.
  const double* add_weights(const execution_space& space, const double* partial, index_t count) {
    request_.wait();
    add(space, partial, count, weights);
    if (ranks_.size() > 1) {
      space.fence("halogen::weight_sum");
      ranks_.all_reduce(weight_sum(), 1);
    }
    if (runs_on_host || ranks_.size() > 1) check_weights();
    return weight_sum();
  }

  /// What all points lose; the mean divides by `divisor`, and by the weights' sum where it is `weighted`.
  void add_losses(const execution_space& space, const double* partial, index_t count, double divisor, bool weighted) {
    request_.wait();
    add(space, partial, count, losses);
    divisor_ = divisor;
    weighted_ = weighted;
    if (ranks_.size() == 1) return;
    space.fence("halogen::loss");
    request_ = ranks_.all_reduce_async(sums_.data() + losses, 1);
  }

  /// The sum that weights the last step; null without weights.
  const double* weight_of_step() const { return weighted_ ? sums_.data() + weights : nullptr; }

  /// The loss, the same on all ranks; waits. Throws CollectiveError where the weights do not sum to something positive.
  double value(const execution_space& space) {
    request_.wait();
    if (ranks_.size() == 1) space.fence("halogen::loss");
    if (!weighted_) return sums_(losses) / divisor_;
    check_weights();
    return sums_(losses) / (sums_(weights) * divisor_);
  }

 private:
  enum Slot { weights, losses };

  double* weight_sum() const { return sums_.data() + weights; }

  void add(const execution_space& space, const double* partial, index_t count, Slot slot) const {
    kernels::SumInOrder<execution_space>{partial, count, sums_.data() + slot}.launch(space);
  }

  void check_weights() const {
    if (!(sums_(weights) > 0))
      throw CollectiveError("the loss weights sum to " + std::to_string(sums_(weights)) +
                            ": at least one must be positive, none NaN");
  }

  Communicator ranks_;
  Kokkos::View<double*, transport_space> sums_{"halogen::loss", 2};
  Request request_;
  double divisor_ = 1;
  bool weighted_ = false;
};

}  // namespace halogen
