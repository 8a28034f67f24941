// Summands of boxes become sums: one reduce_scatter, one all_reduce, or the one after the other.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "halogen/halo/pack.hpp"
#include "halogen/halo/redistribute_plan.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Prepared once for a plan's `summed` boxes; used again it allocates nothing. The ranks of `scatter` split the sums by
/// member, the ranks of `all` then add up equal boxes and all hold the sum: so each value is added over `all` only
/// after the scatter has made it one member's.
template <Reducible T, int Rank>
class PartialSums {
 public:
  PartialSums() = default;
  PartialSums(const RedistributePlan<Rank>& plan, Communicator scatter, Communicator all);

  /// Packs the summands and starts the first collective.
  void start(const execution_space& space, const StridedView<T, Rank>& source);

  bool test() { return request_.test(); }

  /// Waits, and writes this rank's sums. The second collective starts here and not in test(): ranks poll at different
  /// times, but must start their collectives in one order.
  void finish(const execution_space& space, const StridedView<T, Rank>& target);

 private:
  TransportBuffer<T> buffer(const std::string& label, index_t values) const {
    return TransportBuffer<T>(label, values, Travels::in_collectives, scatter_, all_);
  }

  Communicator scatter_, all_;
  std::vector<std::size_t> counts_;
  StripTable<Rank> summands_, sums_;
  TransportBuffer<T> summand_, sum_;
  Request request_;
};

template <Reducible T, int Rank>
PartialSums<T, Rank>::PartialSums(const RedistributePlan<Rank>& plan, Communicator scatter, Communicator all)
    : scatter_(std::move(scatter)), all_(std::move(all)) {
  const auto strips = [](const std::vector<Box<Rank>>& boxes, std::vector<Strip<Rank>>& list) {
    std::size_t points = 0;
    for (const Box<Rank>& box : boxes) {
      list.push_back({0, box, box});
      points += static_cast<std::size_t>(box.points());
    }
    return points;
  };
  std::vector<Strip<Rank>> summands, own;
  for (const std::vector<Box<Rank>>& boxes : plan.summed) counts_.push_back(strips(boxes, summands));
  strips(plan.summed[static_cast<std::size_t>(plan.member)], own);
  summands_ = StripTable<Rank>(summands, false);
  sums_ = StripTable<Rank>(own, true);
  sum_ = buffer("halogen::sum", sums_.values());
  summand_ = scatter_.size() > 1 ? buffer("halogen::summand", summands_.values()) : sum_;
}

template <Reducible T, int Rank>
void PartialSums<T, Rank>::start(const execution_space& space, const StridedView<T, Rank>& source) {
  summands_.template copy<true>(space, source, summand_.data());
  settle(space, scatter_.size() > 1 ? scatter_ : all_, "halogen::pack");
  if (scatter_.size() > 1)
    request_ = scatter_.reduce_scatter_v_async(summand_.data(), sum_.data(), counts_);
  else
    request_ = all_.all_reduce_async(sum_.data(), sum_.size());
}

template <Reducible T, int Rank>
void PartialSums<T, Rank>::finish(const execution_space& space, const StridedView<T, Rank>& target) {
  request_.wait();
  if (scatter_.size() > 1) all_.all_reduce(sum_.data(), sum_.size());
  sums_.template copy<false>(space, target, sum_.data());
}

}  // namespace halogen
