#include "coarse.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace earth {
namespace {

// The coarse cells along one dimension. A periodic one goes on for ever in both directions: cell `count` is cell 0 one
// lap further.
struct Cells {
  std::int64_t extent;  // pixels
  bool periodic;
  std::int64_t count() const { return (extent + coarse_cell - 1) / coarse_cell; }
  std::int64_t begin(std::int64_t cell) const {
    const std::int64_t lap = floor_divide(cell, count());
    return lap * extent + (cell - lap * count()) * coarse_cell;
  }
  std::int64_t end(std::int64_t cell) const { return begin(cell + 1); }
  double centre(std::int64_t cell) const { return 0.5 * static_cast<double>(begin(cell) + end(cell)); }

  // The two cells that pixel `pixel` is interpolated from and the part of the upper one.
  struct Between {
    std::int64_t lower, upper;
    double part;
  };
  Between between(std::int64_t pixel) const {
    const double at = static_cast<double>(pixel) + 0.5;
    const std::int64_t lap = floor_divide(pixel, extent);
    std::int64_t lower = lap * count() + (pixel - lap * extent) / coarse_cell;
    if (at < centre(lower)) --lower;
    std::int64_t upper = lower + 1;
    if (!periodic) {
      lower = std::max<std::int64_t>(lower, 0);
      upper = std::min(upper, count() - 1);
    }
    if (lower >= upper) return {upper, upper, 0.0};  // beyond the outermost centre
    return {lower, upper, (at - centre(lower)) / (centre(upper) - centre(lower))};
  }

 private:
  static std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
};

Cells rows_of(Grid grid) { return {grid.height, false}; }
Cells columns_of(Grid grid) { return {grid.width, true}; }

// Like coarse_margin, in coarse cells.
Box cells_read(Grid grid, Box target) {
  const Cells rows = rows_of(grid), columns = columns_of(grid);
  return {rows.between(target.y0).lower, rows.between(target.y1 - 1).upper + 1, columns.between(target.x0).lower,
          columns.between(target.x1 - 1).upper + 1};
}

}  // namespace

Box coarse_margin(Grid grid, Box target) {
  if (target.height() <= 0 || target.width() <= 0) return target;
  const Box cells = cells_read(grid, target);
  const Cells rows = rows_of(grid), columns = columns_of(grid);
  return {rows.begin(cells.y0), rows.begin(cells.y1), columns.begin(cells.x0), columns.begin(cells.x1)};
}

Planes coarse_and_back(const Planes& fine, Grid grid, Box target) {
  Planes back(fine.channels, target);
  if (target.height() <= 0 || target.width() <= 0) return back;
  const Box cells = cells_read(grid, target);
  const Box read = coarse_margin(grid, target);
  if (read.y0 < fine.box.y0 || read.y1 > fine.box.y1 || read.x0 < fine.box.x0 || read.x1 > fine.box.x1)
    throw std::logic_error("coarse_and_back: the fine field does not cover the margin of the target");
  const Cells rows = rows_of(grid), columns = columns_of(grid);

  std::vector<Cells::Between> across;
  for (std::int64_t x = target.x0; x < target.x1; ++x) across.push_back(columns.between(x));
  std::vector<double> means(static_cast<std::size_t>(cells.height() * cells.width()));
  auto mean = [&](std::int64_t y, std::int64_t x) -> double& {
    return means[static_cast<std::size_t>((y - cells.y0) * cells.width() + x - cells.x0)];
  };
  for (int c = 0; c < fine.channels; ++c) {
    for (std::int64_t cy = cells.y0; cy < cells.y1; ++cy) {
      for (std::int64_t cx = cells.x0; cx < cells.x1; ++cx) {
        double sum = 0;
        for (std::int64_t y = rows.begin(cy); y < rows.end(cy); ++y)
          for (std::int64_t x = columns.begin(cx); x < columns.end(cx); ++x) sum += fine.at(c, y, x);
        const std::int64_t area = (rows.end(cy) - rows.begin(cy)) * (columns.end(cx) - columns.begin(cx));
        mean(cy, cx) = sum / static_cast<double>(area);
      }
    }
    for (std::int64_t y = target.y0; y < target.y1; ++y) {
      const auto [north, south, down] = rows.between(y);
      for (std::int64_t x = target.x0; x < target.x1; ++x) {
        const auto [west, east, right] = across[static_cast<std::size_t>(x - target.x0)];
        const double above = (1 - right) * mean(north, west) + right * mean(north, east);
        const double below = (1 - right) * mean(south, west) + right * mean(south, east);
        back.at(c, y, x) = static_cast<float>((1 - down) * above + down * below);
      }
    }
  }
  return back;
}

}  // namespace earth
