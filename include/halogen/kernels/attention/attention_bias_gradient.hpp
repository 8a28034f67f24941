// The gradient of attention's bias: s of each pair (attention_backward.hpp), added where the bias of the pair was read.
// On the host one team has all pairs that may read the same number, and adds them one after the other. A device adds
// with atomics, in any order.
#pragma once

#include "halogen/kernels/attention/attention_backward.hpp"

namespace halogen::kernels {

/// The gradient is added to `result`, which has the layout of the bias.
template <class ExecutionSpace, class T, class S>
struct AttentionBiasGradient {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionSaved<T, S> saved;
  PairBias<T> result;
  index_t first_team = 0;
  bool split = !tf32_is_allowed();

  index_t teams(const AttentionShape& shape) const {
    if constexpr (device::runs_on<ExecutionSpace>)
      return DevicePart::teams(shape);
    else
      return samples_apart() * heads_apart();
  }
  void launch(const ExecutionSpace& space, index_t begin, index_t end) const {
    AttentionBiasGradient part = *this;
    part.first_team = begin;
    launch_tiles(space, "halogen::attention_dbias", end - begin, part, Block::bytes(saved.shape), DevicePart::bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  using DevicePart = device::AttentionBiasGradient<T, S>;
  using Block = detail::QueryBlock<T, S>;

  index_t samples_apart() const {
    return result.sample_stride == 0 ? std::min<index_t>(1, saved.shape.samples) : saved.shape.samples;
  }
  index_t heads_apart() const {
    return result.head_stride == 0 ? std::min<index_t>(1, saved.shape.heads) : saved.shape.heads;
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const DevicePart part{saved, result, split};
    part.run(team, first_team + team.league_rank());
  }

  void run_on_host(const Team& team) const {
    const AttentionShape& shape = saved.shape;
    Scratch scratch = Scratch::of(team, 1, Block::bytes(shape));
    Block block(saved, scratch);
    const index_t number = first_team + team.league_rank(), heads = heads_apart();
    for (index_t sample = number / heads; sample < shape.samples; sample += samples_apart())
      for (index_t head = number % heads; head < shape.heads; head += heads)
        for (index_t q = 0; q < shape.queries; q += Block::most) {
          block.load(sample, head, q, std::min(Block::most, shape.queries - q));
          block.each_tile([&](index_t k, const auto& pairs, const T*, const T* slopes, const auto&) {
            for (index_t i = 0; i < pairs.rows; ++i)
              for (index_t x = 0; x < pairs.columns; ++x)
                result.at(shape, sample, head, q + x, k + i) += slopes[i * Block::most + x];
          });
        }
  }
};

}  // namespace halogen::kernels
