// The sums of ranks become sums over all ranks: the last step of every sum over points (kernels/sums/merge.hpp has the
// steps before it). How ranks' sums are joined is decided here alone.
#pragma once

#include <vector>

#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// values[i] = the sum, or the largest or smallest, of what the ranks have at values[i]. One all_reduce, in memory that
/// the transport takes. Nothing is sent if there is one rank.
template <class T>
void sum_over_ranks(const execution_space& space, const Communicator& ranks, const char* label, T* values,
                    index_t count, ReduceOp op = ReduceOp::sum) {
  if (ranks.size() == 1) return;
  settle(space, ranks, label);
  ranks.all_reduce(values, static_cast<std::size_t>(count), op);
}
/// The least of the ranks' numbers.
template <class N>
N least_of_ranks(const Communicator& ranks, N own) {
  ranks.all_reduce(&own, 1, ReduceOp::min);
  return own;
}
/// most[i] = the largest of what the ranks have there. Host memory; nothing is sent by a null communicator.
inline void most_of_ranks(const Communicator& ranks, std::vector<double>& most) {
  if (ranks) ranks.all_reduce(most.data(), most.size(), ReduceOp::max);
}
/// The same sums without waiting. The values are sums after the request's wait().
template <class T>
Request start_sum_over_ranks(const execution_space& space, const Communicator& ranks, const char* label, T* values,
                             index_t count) {
  if (ranks.size() == 1) return {};
  settle(space, ranks, label);
  return ranks.all_reduce_async(values, static_cast<std::size_t>(count));
}
/// The same, but each rank gets the sums of its part alone, counts[rank] of them. The parts lie one behind the other in
/// `values`. One reduce_scatter.
template <class T>
Request start_scattered_sum(const execution_space& space, const Communicator& ranks, const char* label, const T* values,
                            T* own, const std::vector<std::size_t>& counts) {
  settle(space, ranks, label);
  return ranks.reduce_scatter_v_async(values, own, counts);
}

/// Partial sums that are not added, but joined in the order of the ranks, so that all ranks get the same bits. One
/// all_gather to `gathered`. Returns where they lie: [rank][count].
template <class Partial>
const Partial* partials_of_ranks(const execution_space& space, const Communicator& ranks, const char* label,
                                 const Partial* own, index_t count, Partial* gathered) {
  if (ranks.size() == 1) return own;
  settle(space, ranks, label);
  ranks.all_gather(own, static_cast<std::size_t>(count) * sizeof(Partial), gathered);
  return gathered;
}

}  // namespace halogen
