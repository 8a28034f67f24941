// Small pictures of the held-out sector between 60 N and 30 S, side by side in rows of five.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "canvas.hpp"
#include "held_out.hpp"

namespace earth {

class Panels {
 public:
  Panels(Grid grid, const Ranks& ranks) : ranks_(ranks), region_(held_out_box(grid)) {
    region_.y0 = grid.height / 6;
    region_.y1 = grid.height * 2 / 3;
  }

  /// Collective. planes(): what this rank adds of the picture, where it has some.
  template <class MakePlanes>
  void add(std::string title, bool mine, const MakePlanes& planes) {
    Canvas canvas(region_);
    if (mine) canvas.add(planes());
    canvas.reduce(ranks_);
    panels_.emplace_back(std::move(title), canvas.image());
  }

  /// For one rank.
  void write_png(const std::filesystem::path& file) const {
    constexpr int columns = 5, margin = 12, heading = 28;
    const Image& first = panels_[0].second;
    const int scale = (269 + first.width()) / first.width(), across = first.width() * scale + margin,
              down = first.height() * scale + heading + margin;
    const int count = static_cast<int>(panels_.size()), rows = (count + columns - 1) / columns;
    Image all(rows * down + margin, std::min(count, columns) * across + margin);
    for (int i = 0; i < count; ++i) {
      const auto& [title, image] = panels_[static_cast<std::size_t>(i)];
      const int y = margin + i / columns * down, x = margin + i % columns * across;
      all.text(y, x, title, colour::ink);
      all.paste(image, y + heading, x, scale);
    }
    all.write_png(file);
  }

 private:
  const Ranks& ranks_;
  Box region_;
  std::vector<std::pair<std::string, Image>> panels_;
};

}  // namespace earth
