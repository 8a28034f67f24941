#include "area_average.hpp"

#include <algorithm>

namespace earth {

AreaAverage::AreaAverage(Grid source, Grid grid, Box box, int channels, double scale)
    : source_(source), grid_(grid), box_(clamp_rows(box, grid)), scale_(scale), planes_(channels, box_) {
  for (std::int64_t x = box_.x0; x < box_.x1; ++x)
    columns_.push_back(touched(wrap_column(x, grid), source.width, grid.width));
  line_.resize(columns_.size() * static_cast<std::size_t>(channels));
  cell_.resize(line_.size());
}

void AreaAverage::add_row(std::int64_t row, std::span<const std::uint8_t> pixels) {
  const int channels = planes_.channels;
  auto out = line_.begin();
  for (int c = 0; c < channels; ++c) {
    for (const Interval& column : columns_) {
      std::uint64_t sum = 0;
      for (std::int64_t x = column.first; x < column.end; ++x)
        sum += pixels[static_cast<std::size_t>(x * channels + c)];
      *out++ = sum;
    }
  }
  // Cells in a column share at most one row, the last of one and the first of the next: one row of sums is enough.
  const std::int64_t first = std::max(box_.y0, touched(row, grid_.height, source_.height).first);
  const std::int64_t end = std::min(box_.y1, touched(row, grid_.height, source_.height).end);
  for (std::int64_t y = first; y < end; ++y) {
    if (row == rows_of(y).first) std::fill(cell_.begin(), cell_.end(), 0);
    for (std::size_t i = 0; i < cell_.size(); ++i) cell_[i] += line_[i];
    if (row + 1 == rows_of(y).end) store(y);
  }
}

void AreaAverage::store(std::int64_t y) {
  const std::int64_t rows = rows_of(y).end - rows_of(y).first;
  auto sum = cell_.begin();
  for (int c = 0; c < planes_.channels; ++c) {
    for (std::int64_t x = box_.x0; x < box_.x1; ++x) {
      const Interval& column = columns_[static_cast<std::size_t>(x - box_.x0)];
      const std::int64_t pixels = rows * (column.end - column.first);
      planes_.at(c, y, x) = static_cast<float>(scale_ * static_cast<double>(*sum++) / static_cast<double>(pixels));
    }
  }
}

}  // namespace earth
