// Reads a piece of a JPEG image of the whole Earth, averaged to a grid, scanline by scanline.
#pragma once

#include <filesystem>

#include "planes.hpp"

namespace earth {

// (3, rows of box, columns of box): red, green, blue in [0, 1], area-averaged from the image's pixels to the cells of
// `grid`. Rows outside the grid are left out of the result; columns wrap around. Only the piece and one scanline are
// ever in memory. Local: no communication; ranks may read the same file at once.
// Throws std::runtime_error, with a sentence that names the file and the cause, for a file that is missing, is no
// JPEG, is damaged, or ends before the piece does.
Planes read_jpeg(const std::filesystem::path& file, Grid grid, Box box);

}  // namespace earth
