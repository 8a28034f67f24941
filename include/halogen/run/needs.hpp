// The points of each stored tensor that all launches need on each piece. They are exact intervals, computed at run
// time, and give the halos.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/halo/boxes.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/run/launch_reads.hpp"

namespace halogen {

/// The needs of one stored tensor in depth, height and width.
struct SpaceNeeds : HaloNeeds<spatial_dimensions> {
  int halo_from = 0;  ///< the first channel of which some piece needs more than its own points
};

namespace detail {

/// For every stored tensor, the hull of its owned points and of all points that its readers need, forward and backward.
class SpaceNeedsOf {
 public:
  SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels);

  const std::vector<SpaceNeeds>& spaces() const { return spaces_; }

 private:
  const LevelLayout& level(int l) const { return levels_[static_cast<std::size_t>(l)]; }

  void add(const Launch& launch, int d, int p);

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
  std::vector<SpaceNeeds> spaces_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE SpaceNeedsOf::SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels)
    : plan_(plan), levels_(levels) {
  for (const StoredTensor& tensor : plan.tensors) {
    SpaceNeeds needs;
    needs.halo_from = tensor.channels;
    for (std::size_t d = 0; d < spatial_dimensions; ++d) {
      needs.cut[d] = level(tensor.level).cut[d];
      for (int p = 0; p < needs.cut[d].parts(); ++p) needs.needed[d].push_back(needs.cut[d].piece(p));
    }
    spaces_.push_back(needs);
  }
  for (const Launch& launch : plan.launches)
    for (int d = 0; d < spatial_dimensions; ++d)
      for (int p = 0; p < level(0).cut[d].parts(); ++p) add(launch, d, p);
}

HALOGEN_INLINE void SpaceNeedsOf::add(const Launch& launch, int d, int p) {
  const Node& node = plan_.node_of(launch);
  if (launch.kind->check != nullptr)
    launch.kind->check(node, d, level(plan_.input_of(launch).level).extent(d), level(node.level).extent(d));
  const Interval computed = level(launch.level).piece(d, p);
  LaunchReads(plan_, levels_)
      .for_each(launch, d, computed, [&](TensorId tensor, const Interval& interval, int channel) {
        const LevelLayout& of_tensor = level(plan_.tensors[tensor].level);
        if (of_tensor.whole) return;
        SpaceNeeds& space = spaces_[static_cast<std::size_t>(tensor.number)];
        Interval& hull_so_far = space.needed[static_cast<std::size_t>(d)][static_cast<std::size_t>(p)];
        hull_so_far = hull(hull_so_far, interval);
        if (!of_tensor.piece(d, p).contains(interval)) space.halo_from = std::min(space.halo_from, channel);
      });
}
#endif

}  // namespace detail
}  // namespace halogen
