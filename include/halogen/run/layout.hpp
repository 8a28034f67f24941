// A plan on one rank of one mesh: extents, halos, messages, and every byte of the arena. It is pure arithmetic, so that
// dry runs can compute it for ranks that do not exist. Evaluation and explain use the same object.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "halogen/core/config.hpp"
#include "halogen/placement/traffic.hpp"
#include "halogen/run/chosen_plan.hpp"
#include "halogen/run/layout_levels.hpp"
#include "halogen/run/lifetimes.hpp"
#include "halogen/run/needs.hpp"
#include "halogen/run/workspace.hpp"

namespace halogen {

/// The strips of a stored tensor. Dimensions: samples, channels, depth, height, width.
using Strips = HaloStrips<2 + spatial_dimensions>;

/// One stored tensor on this rank.
struct TensorLayout {
  Interval owned[spatial_dimensions], stored[spatial_dimensions];  ///< planes, rows, columns, without and with margins
  detail::Margin margins[spatial_dimensions];                      ///< on the rank that needs the largest
  index_t row_stride = 0, plane_stride = 0, channel_stride = 0, sample_stride = 0;
  std::size_t bytes = 0, offset = 0;  ///< in the arena
  Strips strips;

  bool has_halo() const { return !strips.receives.empty() || !strips.sends.empty(); }
};

/// Bytes by kind, without parameters and the optimiser. The arena holds tensors and the workspace.
struct MemoryUse {
  std::size_t tensors = 0;    ///< peak of the stored tensors that live at the same time
  std::size_t kept = 0;       ///< those of them that are kept for backward, at its beginning
  std::size_t workspace = 0;  ///< packed weights, partial sums, tables of affines
  std::size_t exchange = 0;   ///< send and receive buffers
  std::size_t functions = 0;  ///< what launches allocate themselves: the largest that says it (LaunchKind::memory)
  std::size_t total() const { return tensors + workspace + exchange + functions; }
};

class Layout {
 public:
  static constexpr index_t row_alignment_bytes = 64;

  /// `input` has the cuts of all dimensions of the input, (N, C, W), (N, C, H, W) or (N, C, D, H, W). `value_bytes` are
  /// the bytes of its values. Throws the CollectiveErrors of needs.hpp, and one for moments of one value.
  Layout(const Plan& plan, const Decomposition& pieces, int rank, std::span<const Cut> input, ValueBytes value_bytes);

  /// The same of a plan that was made for this run.
  Layout(std::shared_ptr<const ChosenPlan> chosen, const Decomposition& pieces, int rank, std::span<const Cut> input,
         ValueBytes value_bytes)
      : Layout(chosen->plan(), pieces, rank, input, value_bytes) {
    chosen_ = std::move(chosen);
  }

  const Plan& plan() const { return plan_; }
  /// The plan's maker, if the plan was made for this run; else null.
  const ChosenPlan* chosen() const { return chosen_.get(); }
  const Decomposition& decomposition() const { return pieces_; }
  int rank() const { return rank_; }
  const ValueBytes& value_bytes() const { return value_bytes_; }
  int samples() const { return samples_; }
  const Cut& batch_cut() const { return batch_; }
  index_t first_sample() const { return batch_.piece(pieces_.part(rank_, 0)).begin; }
  const LevelLayout& level(int l) const { return levels_[static_cast<std::size_t>(l)]; }
  const std::vector<LevelLayout>& levels() const { return levels_; }
  const TensorLayout& tensor(TensorId t) const { return tensors_[static_cast<std::size_t>(t.number)]; }
  const MemoryUse& memory() const { return memory_; }

  int rank_of_fields() const { return rank_of_fields_; }  ///< 3 (width), 4 (with height) or 5 (with depth)
  Interval owned(int l, int d) const { return level(l).piece(d, part(d)); }
  int planes(int l) const { return static_cast<int>(owned(l, 0).size()); }

  /// The cuts of a field with so many channels on a level. Rank is that of fields, or 2 for vectors.
  template <int Rank>
  std::array<Cut, Rank> field_cuts(int l, index_t channels) const {
    std::array<Cut, Rank> cuts;
    cuts[0] = batch_;
    cuts[1] = Cut::chunk(channels, 1);
    for (int d = 2; d < Rank; ++d) cuts[static_cast<std::size_t>(d)] = level(l).cut[spatial_dimensions - Rank + d];
    return cuts;
  }

  /// What this rank sends in one forward pass or one training step: one halo exchange of each stored tensor, and what
  /// launches send in addition. It does not count the all_reduces of the loss, of its weights and of the gradients of
  /// whole parameters, nor any all_gather (moments, sharded parameters).
  TrafficUse traffic() const;
  TrafficUse halo_traffic() const;
  /// The part of a launch, by its number.
  TrafficUse launch_traffic(int launch) const;
  /// How many numbers a launch sums over ranks that have other points of the same samples.
  int summed_over_ranks(int launch) const;
  /// Whether several ranks have points of one of an affine's groups.
  bool crosses_ranks(AffineTableId affine) const;

  /// How many points of a level each rank has, for the ranks that share this rank's samples, in their order; and this
  /// rank's number among them. This is the sequence that flatten_pieces makes of the points.
  std::pair<Cut, int> sequence(int l) const;

  /// The points of a level that a rank of the mesh owns, and the ranks that share this rank's samples, in their order.
  Box<spatial_dimensions> box(int l, int rank) const;
  std::vector<int> ranks_of_samples() const;

  /// How many points one of an affine's groups has, over all ranks.
  double points_of(AffineTableId affine) const;

  const Workspace& workspace() const { return workspace_; }

  /// Bytes of the one allocation: stored tensors, then the workspace.
  std::size_t arena_bytes() const { return memory_.tensors + memory_.workspace; }

 private:
  /// The piece that this rank holds of depth, height or width.
  int part(int d) const { return pieces_.part(rank_, dimensions_[static_cast<std::size_t>(2 + d)]); }

  TensorLayout tensor_layout(const StoredTensor& tensor, const SpaceNeeds& space) const;

  /// Samples and channels are not cut: each rank exchanges its own samples, and the channels that somebody reads.
  HaloNeeds<2 + spatial_dimensions> with_samples_and_channels(const SpaceNeeds& space, int channels) const;

  /// Refuses moments of one value: its variance is 0, and no variance of a population can be estimated from it.
  void check_moments() const;

  void place();

  void size_workspace();

  std::shared_ptr<const ChosenPlan> chosen_;
  const Plan& plan_;
  Decomposition pieces_;
  int rank_;
  ValueBytes value_bytes_;
  int rank_of_fields_;
  std::array<int, 2 + spatial_dimensions> dimensions_;
  Cut batch_;
  int samples_;
  std::vector<LevelLayout> levels_;
  std::vector<TensorLayout> tensors_;
  Workspace workspace_;
  MemoryUse memory_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE Layout::Layout(const Plan& plan, const Decomposition& pieces, int rank, std::span<const Cut> input,
                              ValueBytes value_bytes)
    : plan_(plan),
      pieces_(pieces),
      rank_(rank),
      value_bytes_(value_bytes),
      rank_of_fields_(static_cast<int>(input.size())),
      dimensions_(tensor_dimensions(input.size())),
      batch_(input[0]),
      samples_(static_cast<int>(batch_.piece(pieces.part(rank, 0)).size())),
      levels_(layout_levels(plan, input.subspan(2), pieces.text())) {
  if (batch_.first_empty_piece() >= 0)
    throw CollectiveError("mesh " + pieces.text() + " leaves a rank without any sample of a batch of " +
                          std::to_string(batch_.extent()) + ": " +
                          (batch_.extent() < batch_.parts()
                               ? ""
                               : "cut the batch with Cut::balanced(" + std::to_string(batch_.extent()) + ", " +
                                     std::to_string(batch_.parts()) + "), or ") +
                          "use fewer ranks for the batch");
  check_moments();
  const detail::SpaceNeedsOf needs(plan, levels_);
  for (int t = 0; t < plan.tensors.size(); ++t)
    tensors_.push_back(tensor_layout(plan.tensors[t], needs.spaces()[static_cast<std::size_t>(t)]));
  place();
  size_workspace();
}

HALOGEN_INLINE TrafficUse Layout::traffic() const {
  TrafficUse use = halo_traffic();
  for (int i = 0; i < plan_.launches.size(); ++i) use += launch_traffic(i);
  return use;
}

HALOGEN_INLINE TrafficUse Layout::launch_traffic(int i) const {
  const Launch& launch = plan_.launches[i];
  TrafficUse use = launch.kind->traffic == nullptr ? TrafficUse{} : launch.kind->traffic(*this, launch);
  use.all_reduces += summed_over_ranks(i) > 0;
  use.all_reduces += launch.sums >= 0 && crosses_ranks(plan_.activations[launch.sums].affine);
  return use;
}

HALOGEN_INLINE int Layout::summed_over_ranks(int i) const {
  const Launch& launch = plan_.launches[i];
  const bool shared = launch.level >= 0 && !level(launch.level).whole && pieces_.size(pieces_.mask({2, 3, 4})) > 1;
  return shared ? workspace_.use(i).rank_sums : 0;
}

HALOGEN_INLINE bool Layout::crosses_ranks(AffineTableId affine) const {
  return pieces_.size(plan_.affines[affine].of_batch ? pieces_.mask({0, 2, 3, 4}) : pieces_.mask({2, 3, 4})) > 1;
}

HALOGEN_INLINE std::pair<Cut, int> Layout::sequence(int l) const {
  std::vector<index_t> sizes;
  for (const int rank : ranks_of_samples()) sizes.push_back(box(l, rank).points());
  return {Cut::of_sizes(sizes), pieces_.joined(2, rank_of_fields_ - 1).part(rank_, 2)};
}

HALOGEN_INLINE Box<spatial_dimensions> Layout::box(int l, int rank) const {
  Box<spatial_dimensions> points;
  for (std::size_t d = 0; d < spatial_dimensions; ++d)
    points.side[d] = level(l).piece(static_cast<int>(d), pieces_.part(rank, dimensions_[2 + d]));
  return points;
}

HALOGEN_INLINE std::vector<int> Layout::ranks_of_samples() const {
  const Decomposition joined = pieces_.joined(2, rank_of_fields_ - 1);
  std::vector<int> ranks;
  for (int part = 0; part < joined.parts(2); ++part) ranks.push_back(joined.with_part(rank_, 2, part));
  return ranks;
}

HALOGEN_INLINE TrafficUse Layout::halo_traffic() const {
  TrafficUse use;
  for (int t = 0; t < plan_.tensors.size(); ++t) {
    const Strips::Traffic one = tensor(TensorId(t)).strips.traffic(rank_);
    use.messages += one.messages;
    use.bytes += one.points * static_cast<index_t>(value_bytes_.stored);
  }
  return use;
}

HALOGEN_INLINE double Layout::points_of(AffineTableId affine) const {
  const AffineTable& of = plan_.affines[affine];
  const double of_sample =
      static_cast<double>(level(plan_.tensors[of.tensor].level).points()) * (of.channels / of.groups);
  return of.of_batch ? of_sample * static_cast<double>(batch_.extent()) : of_sample;
}

HALOGEN_INLINE TensorLayout Layout::tensor_layout(const StoredTensor& tensor, const SpaceNeeds& space) const {
  TensorLayout layout;
  const bool whole = level(tensor.level).whole;
  for (int d = 0; d < spatial_dimensions; ++d) {
    layout.owned[d] = owned(tensor.level, d);
    layout.stored[d] = whole ? layout.owned[d] : space.needed_by(d, part(d));
    for (int p = 0; p < space.cut[static_cast<std::size_t>(d)].parts(); ++p)
      layout.margins[d].widen(space.cut[static_cast<std::size_t>(d)].piece(p), space.needed_by(d, p));
  }
  const index_t per_line = row_alignment_bytes / static_cast<index_t>(value_bytes_.stored);
  layout.row_stride = ceil_div(layout.stored[2].size(), per_line) * per_line;
  layout.plane_stride = layout.row_stride * layout.stored[1].size();
  // A channel has an odd number of cache lines. The same row of neighbouring channels then does not share cache sets.
  const index_t lines = layout.plane_stride / per_line * layout.stored[0].size();
  layout.channel_stride = (lines + (lines % 2 == 0 && !tensor.as_field)) * per_line;
  layout.sample_stride = layout.channel_stride * tensor.channels;
  layout.bytes = static_cast<std::size_t>(layout.sample_stride * samples_) * value_bytes_.stored;
  if (!whole) layout.strips = Strips(with_samples_and_channels(space, tensor.channels), pieces_, rank_);
  return layout;
}

HALOGEN_INLINE HaloNeeds<2 + spatial_dimensions> Layout::with_samples_and_channels(const SpaceNeeds& space,
                                                                                   int channels) const {
  HaloNeeds<2 + spatial_dimensions> needs;
  needs.dimension = dimensions_;
  needs.cut[0] = batch_;
  needs.cut[1] = Cut::chunk(channels, 1);
  for (int p = 0; p < batch_.parts(); ++p) needs.needed[0].push_back(batch_.piece(p));
  needs.needed[1].push_back({space.halo_from, channels});
  for (std::size_t d = 0; d < spatial_dimensions; ++d) {
    needs.cut[2 + d] = space.cut[d];
    needs.needed[2 + d] = space.needed[d];
  }
  return needs;
}

HALOGEN_INLINE void Layout::check_moments() const {
  for (const Launch& launch : plan_.launches) {
    if (launch.statistics < 0 || points_of(launch.statistics) > 1) continue;
    const AffineTable& of = plan_.affines[launch.statistics];
    throw CollectiveError(layer_text(plan_.graph.nodes[of.node]) + ": each variance would be that of one value, of 1 " +
                          (of.of_batch ? "sample" : "channel") + " with 1 point: give it more points, or more " +
                          (of.of_batch ? "samples" : "channels in a group"));
  }
}

HALOGEN_INLINE void Layout::place() {
  std::vector<int> stored;
  std::vector<detail::Block> blocks;
  for (int t = 0; t < plan_.tensors.size(); ++t) {
    const StoredTensor& tensor = plan_.tensors[t];
    if (tensor.external || tensor.first_launch < 0) continue;
    stored.push_back(t);
    blocks.push_back({tensors_[static_cast<std::size_t>(t)].bytes, tensor.first_launch, tensor.last_launch});
    if (plan_.training && tensor.first_launch < plan_.first_backward && tensor.last_launch >= plan_.first_backward)
      memory_.kept += blocks.back().bytes;
  }
  memory_.tensors = detail::place_blocks(blocks);
  for (std::size_t i = 0; i < stored.size(); ++i)
    tensors_[static_cast<std::size_t>(stored[i])].offset = blocks[i].offset;
}

HALOGEN_INLINE void Layout::size_workspace() {
  workspace_ = Workspace(
      plan_, [this](int l, int d) { return owned(l, d); }, samples_, value_bytes_);
  memory_.workspace = workspace_.bytes();
  std::size_t values = 0;
  for (const TensorLayout& layout : tensors_)
    for (const auto* strips : {&layout.strips.receives, &layout.strips.sends})
      values = std::max(values, static_cast<std::size_t>(Strips::points(*strips)));
  memory_.exchange = 2 * values * value_bytes_.stored;
  for (const Launch& launch : plan_.launches)
    if (launch.kind->memory != nullptr)
      memory_.functions = std::max(memory_.functions, static_cast<std::size_t>(launch.kind->memory(*this, launch)));
}
#endif

}  // namespace halogen
