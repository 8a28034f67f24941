// A latitude-longitude grid over the whole Earth, and a rectangle of it.
//
// Row 0 is the northernmost, column 0 starts at 180 W; pixel (y, x) covers a cell, and its centre lies at
// latitude 90 - (y + 1/2) 180 / height and longitude -180 + (x + 1/2) 360 / width.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

namespace earth {

struct Grid {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Grid&) const = default;
};

// What the images hold: every other grid is an area average of this one.
inline constexpr Grid full_grid{2700, 5400};

// Half-open rectangle [y0, y1) x [x0, x1) in pixels of a grid. Columns may lie outside [0, width): longitude is
// periodic, and column x means column x mod width.
struct Box {
  std::int64_t y0 = 0, y1 = 0;
  std::int64_t x0 = 0, x1 = 0;
  std::int64_t height() const { return y1 - y0; }
  std::int64_t width() const { return x1 - x0; }
  bool operator==(const Box&) const = default;
};

inline Box whole(Grid grid) { return {0, grid.height, 0, grid.width}; }

// The rows of `box` that exist; columns stay as they are, since longitude has no end.
inline Box clamp_rows(Box box, Grid grid) {
  box.y0 = box.y0 < 0 ? 0 : box.y0;
  box.y1 = box.y1 > grid.height ? grid.height : box.y1;
  if (box.y1 < box.y0) box.y1 = box.y0;
  return box;
}

// The cosine of the latitude of a row's centre, by which the area of its cells goes.
inline double area_weight(std::int64_t y, Grid grid) {
  const double latitude = 0.5 - (static_cast<double>(y) + 0.5) / static_cast<double>(grid.height);
  return std::cos(latitude * std::numbers::pi);
}

// x mod width, in [0, width).
inline std::int64_t wrap_column(std::int64_t x, Grid grid) {
  const std::int64_t remainder = x % grid.width;
  return remainder < 0 ? remainder + grid.width : remainder;
}

// The grid of a spacing in degrees: "2", "1", "0.5", "0.25", "0.1", or "full" for the images' own 2700 x 5400.
// Throws std::invalid_argument, with a sentence that names the value and the allowed ones.
Grid parse_grid(const std::string& spacing);

}  // namespace earth
