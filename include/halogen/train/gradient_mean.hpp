// The gradient of a step over several batches: that of one batch with all their points.
//
//   a batch:  g_k, the gradient of S_k / n_k: S_k is the sum of its losses, n_k the sum of weights or number of points
//   a step:   the gradient of (S_1 + S_2 + ...) / (n_1 + n_2 + ...), which is (n_1 g_1 + n_2 g_2 + ...) / (n_1 + ...)
//   LossReduction::sum: the gradient of S_1 + S_2 + ..., which is g_1 + g_2 + ...
//
// A rank has its share of each gradient; n_k is that of all ranks. Nothing is sent.
#pragma once

#include <optional>
#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/kernels/sums/maps_and_vectors.hpp"
#include "halogen/run/loss_sum.hpp"

namespace halogen::detail {

/// Numbers of the batches so far, in memory of kernels: n_1, the sum of all n_k, and n_k / n_1 of the last batch.
/// least: of all n_k. counts: n_k of each output.
struct BatchNumbers {
  double first, all, share, least;
  double counts[most_outputs];
};

/// counts = n_k of each output. One work item.
struct CountBatch {
  int outputs;
  double divisors[most_outputs];
  const double* weights[most_outputs];
  BatchNumbers* numbers;
  KOKKOS_FUNCTION void operator()(const index_t) const {
    for (int i = 0; i < outputs; ++i) numbers->counts[i] = divisors[i] * (weights[i] == nullptr ? 1 : *weights[i]);
  }
};

/// Takes a batch into the numbers. The outputs have the same n_k / n_1, so the first one's stand for all. One work
/// item.
struct JoinBatch {
  bool is_first, is_sum;
  BatchNumbers* numbers;
  KOKKOS_FUNCTION void operator()(const index_t) const {
    const double count = numbers->counts[0];
    if (is_first) numbers->first = numbers->least = count, numbers->all = 0;
    numbers->all = is_sum ? numbers->first : numbers->all + count;
    numbers->share = is_sum ? 1 : count / numbers->first;
    if (!(count >= numbers->least)) numbers->least = count;
  }
};

/// accumulated += gradient n_k / n_1.
template <class T>
struct AddBatch {
  T *gradient, *accumulated;
  const BatchNumbers* numbers;
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    accumulated[i] += gradient[i] * static_cast<T>(numbers->share);
  }
};

/// gradient = (gradient n_k / n_1 + accumulated) n_1 / (n_1 + n_2 + ...); accumulated = 0.
template <class T>
struct TakeMean {
  T *gradient, *accumulated;
  const BatchNumbers* numbers;
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    gradient[i] =
        (gradient[i] * static_cast<T>(numbers->share) + accumulated[i]) * static_cast<T>(numbers->first / numbers->all);
    accumulated[i] = 0;
  }
};

/// The gradients of a step's batches so far. Gradient: the model's, as the trainer has it.
template <class Gradient, class T>
class GradientMean {
 public:
  /// Batches that wait for the step.
  int pending() const { return pending_; }

  /// Adds the gradient of a batch.
  void add(const Gradient& gradient, const LossDivisors& divisors) {
    const bool moved = !accumulated_ || accumulated_->view().size() != gradient.view().size();
    if (moved) accumulated_.emplace(gradient.zeros("halogen::accumulated"));
    join(divisors);
    launch_range(execution_space{}, "halogen::accumulate", gradient.trained_values(),
                 AddBatch<T>{gradient.data(), accumulated_->data(), numbers_.data()});
    ++pending_;
  }

  /// Makes the gradient of the last batch that of all; returns where the least n_k is, which must be positive.
  const double* take(const Gradient& gradient, const LossDivisors& divisors) {
    join(divisors);
    launch_range(execution_space{}, "halogen::mean_gradient", gradient.trained_values(),
                 TakeMean<T>{gradient.data(), accumulated_->data(), numbers_.data()});
    pending_ = 0;
    return &numbers_.data()->least;
  }

 private:
  void join(const LossDivisors& divisors) {
    if (!numbers_.is_allocated()) numbers_ = Kokkos::View<BatchNumbers, memory_space>("halogen::batch_numbers");
    const execution_space space;
    CountBatch counts{divisors.outputs, {}, {}, numbers_.data()};
    for (int i = 0; i < divisors.outputs; ++i) {
      counts.divisors[i] = divisors.means[static_cast<std::size_t>(i)].divisor;
      counts.weights[i] = divisors.weights[static_cast<std::size_t>(i)];
    }
    launch_range(space, "halogen::count_batch", 1, counts);
    if (divisors.outputs > 1) check_shares(divisors);
    const bool is_sum = divisors.means[0].reduction == LossReduction::sum;
    launch_range(space, "halogen::join_batch", 1, JoinBatch{pending_ == 0, is_sum, numbers_.data()});
  }

  /// One backward pass adds the gradients of all outputs, so a batch must count alike in all of them. Waits.
  void check_shares(const LossDivisors& divisors) {
    BatchNumbers now{};
    Kokkos::deep_copy(Kokkos::View<BatchNumbers, Kokkos::HostSpace>(&now), numbers_);
    if (pending_ == 0) first_ = now;
    const auto is_sum = [&](int i) {
      return divisors.means[static_cast<std::size_t>(i)].reduction == LossReduction::sum;
    };
    const auto share_of = [&](int i) { return is_sum(i) ? 1 : now.counts[i] / first_.counts[i]; };
    for (int i = 1; i < divisors.outputs; ++i)
      if (is_sum(i) != is_sum(0) || std::abs(share_of(i) - share_of(0)) > 1e-9 * share_of(0))
        throw CollectiveError("accumulate: batch " + std::to_string(pending_ + 1) + " counts " +
                              number_text(share_of(0)) + " times as much as the first in output 0 and " +
                              number_text(share_of(i)) + " times in output " + std::to_string(i) +
                              (is_sum(i) != is_sum(0) ? ", of which one is a sum" : "") +
                              ", but a step has one gradient for all outputs: weigh the outputs of a batch alike, or "
                              "make one batch, which "
                              "a trainer of micro_batches runs in parts");
  }

  std::optional<Gradient> accumulated_;
  Lasting<Kokkos::View<BatchNumbers, memory_space>> numbers_;
  BatchNumbers first_{};  ///< of the first batch, where there are several outputs
  int pending_ = 0;
};

}  // namespace halogen::detail
