// The norm of a gradient over all parameters, where kernels read it: torch.nn.utils.clip_grad_norm_.
#pragma once

#include <algorithm>

#include "halogen/kernels/square_sum.hpp"
#include "halogen/tensor/space.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Made for gradients of so many values on this rank; `ranks` hold the shards of one, where it is sharded.
class GradientNorm {
 public:
  GradientNorm(std::size_t values, const Communicator& ranks)
      : ranks_(ranks),
        square_("halogen::gradient_norm", 1, Travels::in_collectives, ranks),
        sums_("halogen::gradient_norm", blocks_of_all(static_cast<index_t>(values))) {}

  /// Its square. One all_reduce of it over the ranks of shards, else nothing is sent; no allocation, and on a device
  /// the host waits for nothing that the transport does not wait for.
  template <class T>
  const double* square(const execution_space& space, const T* gradient, std::size_t values) {
    index_t count = static_cast<index_t>(values);
    double* to = sums_.data();
    count = sum<T, true>(space, gradient, count, to);
    while (count > 1) {
      const double* from = to;
      to += count;
      count = sum<double, false>(space, from, count, to);
    }
    if (ranks_.size() > 1) {
      settle(space, ranks_, "halogen::gradient_norm");
      ranks_.all_reduce(square_.data(), 1);
    }
    return square_.data();
  }

 private:
  static index_t blocks_of_all(index_t count) {
    index_t all = 0;
    do all += count = ceil_div(count, kernels::square_block);
    while (count > 1);
    return all;
  }

  /// The last sum goes where the transport reads it.
  template <class T, bool Squares>
  index_t sum(const execution_space& space, const T* from, index_t count, double* to) {
    const index_t blocks = std::max<index_t>(1, ceil_div(count, kernels::square_block));
    launch_range(space, "halogen::gradient_norm", blocks,
                 kernels::SumBlocks<T, Squares>{from, count, blocks == 1 ? square_.data() : to});
    return blocks;
  }

  Communicator ranks_;
  TransportBuffer<double> square_;
  Kokkos::View<double*, memory_space> sums_;
};

}  // namespace halogen
