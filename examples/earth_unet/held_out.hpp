// The sector of the Earth that the network never trains on.
#pragma once

#include <cstdint>

#include "grid.hpp"

namespace earth {

inline constexpr int held_out_west = 60;   // degrees east
inline constexpr int held_out_east = 150;  // degrees east

// Whether the centre of column x, at longitude -180 + (x + 1/2) 360 / width, lies in the sector from 60 E to 150 E.
inline bool held_out(std::int64_t x, Grid grid) {
  // In integers: twice the centre's distance from 180 W, times width.
  const std::int64_t centre = (2 * wrap_column(x, grid) + 1) * 360;
  return centre >= 2 * (held_out_west + 180) * grid.width && centre < 2 * (held_out_east + 180) * grid.width;
}

// The columns of the sector, over all latitudes.
inline Box held_out_box(Grid grid) {
  Box box = whole(grid);
  while (!held_out(box.x0, grid)) ++box.x0;
  box.x1 = box.x0;
  while (held_out(box.x1, grid)) ++box.x1;
  return box;
}

}  // namespace earth
