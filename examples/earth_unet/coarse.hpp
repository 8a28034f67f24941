// The coarse field that a low-resolution model would give, interpolated back to the grid.
#pragma once

#include "planes.hpp"

namespace earth {

// Cells of 4 x 4 pixels; the last cell of a dimension is smaller where 4 does not divide the extent.
inline constexpr std::int64_t coarse_cell = 4;

// The pixels that coarse_and_back reads for `target`: all of every coarse cell whose centre it interpolates from.
// Columns may stick out of the grid (longitude is periodic), rows do not.
Box coarse_margin(Grid grid, Box target);

// Averages `fine` over coarse cells and interpolates bilinearly between the cells' centres, at the pixel centres of
// `target`: periodic in longitude, the outermost cells' values beyond their centres at the poles.
// fine.box must contain coarse_margin(grid, target). Local; a piece has the very bits of the whole.
Planes coarse_and_back(const Planes& fine, Grid grid, Box target);

}  // namespace earth
