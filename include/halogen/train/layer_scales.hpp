// LAMB's scales: the norm of each parameter tensor over that of its step.
#pragma once

#include <vector>

#include "halogen/kernels/training/layer_scales.hpp"
#include "halogen/tensor/rank_sums.hpp"
#include "halogen/train/parameters/parameter_groups.hpp"

namespace halogen {

/// Made for parameters of one layout. Sums are in double: blocks of a tensor's values, then blocks in order, then, with
/// shards, ranks by one all_reduce.
template <class ModelType, class T, Placement P>
class LayerScales {
 public:
  LayerScales(const Parameters<ModelType, T, P>& parameters, const std::vector<unsigned short>& tensors)
      : direction_(parameters.zeros("halogen::direction")),
        ranks_(detail::shards_of(parameters)),
        sums_("halogen::layer_norms", 2 * count, Travels::in_collectives, ranks_) {
    std::vector<kernels::TensorBlock> blocks;
    std::vector<index_t> first(static_cast<std::size_t>(count) + 1);
    const auto values = static_cast<index_t>(tensors.size());
    for (index_t begin = 0; begin < values;) {
      const unsigned short tensor = tensors[static_cast<std::size_t>(begin)];
      index_t end = begin;
      while (end < values && end - begin < most_in_block && tensors[static_cast<std::size_t>(end)] == tensor) ++end;
      if (tensor != detail::no_tensor) {
        blocks.push_back({begin, end});
        for (int t = tensor + 1; t <= count; ++t)
          first[static_cast<std::size_t>(t)] = static_cast<index_t>(blocks.size());
      }
      begin = end;
    }
    blocks_ = {"halogen::layer_blocks", blocks.size()};
    first_block_ = {"halogen::layer_blocks", first.size()};
    partial_ = {"halogen::layer_norms", 2 * blocks.size()};
    copy_to_view(blocks_, blocks);
    copy_to_view(first_block_, first);
  }

  /// Where a step is written before it is scaled.
  T* direction() const { return direction_.data(); }

  /// Takes the step that `of` has written.
  template <class Step>
  void step(const execution_space& space, const Step& of, index_t values) {
    launch_range(space, "halogen::layer_norms", static_cast<index_t>(blocks_.size()),
                 kernels::BlockNorms<T>{of.parameters, direction(), blocks_.data(), partial_.data()});
    launch_range(space, "halogen::layer_norms", 2 * count,
                 kernels::TensorNorms{partial_.data(), first_block_.data(), sums_.data()});
    sum_over_ranks(space, ranks_, "halogen::layer_norms", sums_.data(), 2 * count);
    launch_range(space, "halogen::scaled_step", values, kernels::ScaledStep<T, Step>{of, sums_.data()});
  }

 private:
  static constexpr index_t count = Parameters<ModelType, T, P>::graph().parameters.size();
  static constexpr index_t most_in_block = 4096;

  Parameters<ModelType, T, P> direction_;
  Communicator ranks_;
  TransportBuffer<double> sums_;
  detail::Lasting<Kokkos::View<kernels::TensorBlock*, memory_space>> blocks_;
  detail::Lasting<Kokkos::View<index_t*, memory_space>> first_block_;
  detail::Lasting<Kokkos::View<double*, memory_space>> partial_;
};

}  // namespace halogen
