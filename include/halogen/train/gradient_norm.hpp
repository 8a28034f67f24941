// The norm of a gradient over all parameters, where kernels read it: torch.nn.utils.clip_grad_norm_.
#pragma once

#include "halogen/kernels/sums/merge.hpp"
#include "halogen/kernels/sums/square_sum.hpp"
#include "halogen/tensor/rank_sums.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// Made for gradients of so many values on this rank; `ranks` hold the shards of one, where it is sharded.
class GradientNorm {
 public:
  GradientNorm(index_t values, const Communicator& ranks)
      : ranks_(ranks),
        square_("halogen::gradient_norm", 1, Travels::in_collectives, ranks),
        sums_("halogen::gradient_norm", ceil_div(values, kernels::square_block)) {}

  /// Its square. One all_reduce of it over the ranks of shards, else nothing is sent; no allocation, and on a device
  /// the host waits for nothing that the transport does not wait for.
  template <class T>
  const double* square(const execution_space& space, const T* gradient, index_t values);

 private:
  Communicator ranks_;
  TransportBuffer<double> square_;
  detail::Lasting<Kokkos::View<double*, memory_space>> sums_;
};

template <class T>
const double* GradientNorm::square(const execution_space& space, const T* gradient, index_t values) {
  const auto blocks = static_cast<index_t>(sums_.size());
  launch_range(space, "halogen::gradient_norm", blocks, kernels::SumSquares<T>{gradient, values, sums_.data()});
  kernels::sum_arrays(space, "halogen::sum", sums_.data(), blocks, square_.data());
  sum_over_ranks(space, ranks_, "halogen::gradient_norm", square_.data(), 1);
  return square_.data();
}

}  // namespace halogen
