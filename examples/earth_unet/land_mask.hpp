// Reads a piece of the land/sea mask, sampled at an image's pixels and averaged to a grid.
#pragma once

#include <filesystem>

#include "planes.hpp"

namespace earth {

// (1, rows of box, columns of box): the fraction of land in each cell of `grid`, in [0, 1].
//
// `file` is an .npz archive whose member mask.npy is a boolean array of rows from 90 N down and columns from 180 W
// eastwards, true at sea. Its point nearest to each pixel centre of `samples` counts as that pixel; the pixels are
// then area-averaged. The 933 MB that the array inflates to are streamed: one row in memory, nothing after the last
// row that the box needs. Rows outside the grid are left out of the result; columns wrap around. Local: no
// communication. Throws std::runtime_error with a sentence that names the file and the cause.
Planes read_land_fraction(const std::filesystem::path& file, Grid grid, Box box, Grid samples = full_grid);

}  // namespace earth
