#include "canvas.hpp"

#include <algorithm>
#include <cmath>

namespace earth {
namespace {

// Picture cells that one grid pixel covers, in one dimension, and the share of the pixel that lies in each. All lengths
// in units of 1 / (pixels * cells) of the region.
template <class Visit>
void for_each_cell(std::int64_t pixel, std::int64_t pixels, std::int64_t cells, Visit visit) {
  const std::int64_t begin = pixel * cells, end = (pixel + 1) * cells;
  for (std::int64_t cell = begin / pixels; cell * pixels < end; ++cell) {
    const std::int64_t common = std::min(end, (cell + 1) * pixels) - std::max(begin, cell * pixels);
    visit(cell, static_cast<double>(common) / static_cast<double>(cells));
  }
}

}  // namespace

Grid reduced_size(Box region, Grid at_most) {
  const auto ceil_divide = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t factor =
      std::max(ceil_divide(region.height(), at_most.height), ceil_divide(region.width(), at_most.width));
  return {ceil_divide(region.height(), factor), ceil_divide(region.width(), factor)};
}

Canvas::Canvas(Box region, Grid at_most)
    : region_(region),
      size_(reduced_size(region, at_most)),
      cells_(static_cast<std::size_t>(4 * size_.height * size_.width)) {}

void Canvas::add(const Planes& piece) {
  const std::int64_t y_end = std::min(piece.box.y1, region_.y1), x_end = std::min(piece.box.x1, region_.x1);
  for (std::int64_t y = std::max(piece.box.y0, region_.y0); y < y_end; ++y) {
    for_each_cell(y - region_.y0, region_.height(), size_.height, [&](std::int64_t row, double down) {
      for (std::int64_t x = std::max(piece.box.x0, region_.x0); x < x_end; ++x) {
        for_each_cell(x - region_.x0, region_.width(), size_.width, [&](std::int64_t column, double across) {
          double* cell = &cells_[static_cast<std::size_t>(4 * (row * size_.width + column))];
          for (int c = 0; c < 3; ++c) cell[c] += down * across * piece.at(c, y, x);
          cell[3] += down * across;
        });
      }
    });
  }
}

Image Canvas::image() const {
  Image image(static_cast<int>(size_.height), static_cast<int>(size_.width));
  const double* cell = cells_.data();
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x, cell += 4) {
      Colour paint{};
      for (std::size_t c = 0; c < 3; ++c)
        paint[c] = static_cast<std::uint8_t>(std::lround(255 * std::clamp(cell[c] / cell[3], 0.0, 1.0)));
      image.blend(y, x, paint);
    }
  }
  return image;
}

}  // namespace earth
