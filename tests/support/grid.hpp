// The two-dimensional meshes of the started ranks.
#pragma once

#include "halogen/comm/environment.hpp"
#include "support/ran.hpp"

namespace support {

using Grid = halogen::Mesh<"height", "width">;

/// The world of the test's main, which owns the environment.
inline halogen::Communicator grid_world() {
  static halogen::Environment environment;
  return environment.world();
}

inline Meshes<Grid> grids() {
  const halogen::Communicator world = grid_world();
  Meshes<Grid> result;
  for (int height = 1; height <= world.size(); ++height)
    if (world.size() % height == 0) result.push_back(halogen::device_mesh<Grid>(world, {height, -1}));
  return result;
}

}  // namespace support
