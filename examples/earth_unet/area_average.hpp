// Averages an image, given row by row, over the cells of a coarser grid; one row in memory.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planes.hpp"

namespace earth {

// Fills a box of `grid` from rows of a `source` image that covers the same Earth. A cell is the plain mean of all
// source pixels that it touches: rows floor(y H / h) up to ceil((y + 1) H / h), columns alike. Where the extents do not
// divide, neighbouring cells share a pixel, as in PyTorch's adaptive_avg_pool2d (interpolate's mode "area"), whose
// figures ours are compared with. Sums are whole numbers, so a piece has the very bits of the whole.
class AreaAverage {
 public:
  // `box` is clamped to the grid's rows; its columns may stick out and wrap around. Values are multiplied by `scale`.
  AreaAverage(Grid source, Grid grid, Box box, int channels, double scale);

  // The source rows that the box reads: [first_row, end_row), none if the box is empty.
  std::int64_t first_row() const { return empty() ? 0 : rows_of(box_.y0).first; }
  std::int64_t end_row() const { return empty() ? 0 : rows_of(box_.y1 - 1).end; }

  // Takes source row `row`: source.width pixels of `channels` interleaved values. Rows come in order, each of
  // [first_row, end_row) once.
  void add_row(std::int64_t row, std::span<const std::uint8_t> pixels);

  // The averages; valid once row end_row() - 1 has been added.
  Planes finish() && { return std::move(planes_); }

 private:
  struct Interval {
    std::int64_t first, end;
  };
  static Interval touched(std::int64_t cell, std::int64_t source, std::int64_t cells) {
    return {cell * source / cells, ((cell + 1) * source + cells - 1) / cells};
  }
  Interval rows_of(std::int64_t y) const { return touched(y, source_.height, grid_.height); }
  bool empty() const { return box_.height() == 0 || box_.width() <= 0; }
  void store(std::int64_t y);

  Grid source_, grid_;
  Box box_;
  double scale_;
  Planes planes_;
  std::vector<Interval> columns_;    // source columns of each column of the box
  std::vector<std::uint64_t> line_;  // sums of the row just added: (channels, width of box)
  std::vector<std::uint64_t> cell_;  // sums of the row of cells in progress, same shape
};

}  // namespace earth
