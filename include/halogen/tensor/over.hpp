// Sharded::over: a field over an array of the caller's, with its ghost cells.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "halogen/comm/agree.hpp"
#include "halogen/comm/stream.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {
namespace detail {

/// Collective. Throws CollectiveError where a margin is negative, or another on another rank.
inline void agree_on_margins(const Communicator& world, std::span<const Margin> margins) {
  for (std::size_t d = 0; d < margins.size(); ++d) {
    std::int64_t least[] = {margins[d].lo, margins[d].hi, -margins[d].lo, -margins[d].hi};
    if (world) world.all_reduce(least, 4, ReduceOp::min);
    for (std::size_t side = 0; side < 2; ++side)
      if (least[side] < 0 || least[side] != -least[side + 2])
        throw CollectiveError("Sharded::over: the margin of dimension " + std::to_string(d) + " has " +
                              std::to_string(least[side]) + " points on one rank and " +
                              std::to_string(-least[side + 2]) + " on another: give all ranks the same, 0 or more");
  }
}

}  // namespace detail

template <class TensorType, class MeshType, Placement... Placements>
auto Sharded<TensorType, MeshType, Placements...>::over(const DeviceMesh<MeshType>& mesh, std::array<Cut, rank> cuts,
                                                        value_type* memory, const Margins& margins) -> Sharded {
  const auto shape = make_shape(mesh, std::move(cuts), detail::Origin::given);
  detail::agree_on_margins(mesh.world(), margins);
  index_t points = 1;
  for (int d = 0; d < rank; ++d) points *= shape->owned(d).size();
  std::string fault;
  if (points > 0 && memory == nullptr)
    fault = "Sharded::over: rank " + std::to_string(mesh.rank()) + " gives no array (null) for its " +
            std::to_string(points) + " points";
  else if (points > 0 && !runs_on_host && !detail::is_device_memory(memory))
    fault =
        "Sharded::over: the array lies in host memory, which this program's kernels do not reach: give an array of "
        "the device, or copy it with copy_from_host";
  if (mesh.world()) detail::agree_on(mesh.world(), !fault.empty(), fault);
  return over(shape, memory, margins);
}

}  // namespace halogen
