// Square patches of the Earth for a classifier: what the relief shows, and whether they are sea, land or ice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "jpeg_reader.hpp"
#include "land_mask.hpp"

namespace earth {

// Which rows of what patch.
struct PatchRows {
  int kind = 0;  // 0 sea, 1 land, 2 ice
  bool is_held_out = false;
  std::int64_t size = 0, row = 0, rows = 0;
};

// Of etopo1.jpg, bmng.jpg and globe_combined_mask_compressed.npz in a folder, at a quarter of a degree, on each rank
// the whole Earth: 29 MB. Throws std::runtime_error, which names the file. Without a folder patches are made up.
class Patches {
 public:
  Patches() = default;
  explicit Patches(const std::filesystem::path& data)
      : relief_(read_jpeg(data / "etopo1.jpg", grid_, whole(grid_))),
        colours_(read_jpeg(data / "bmng.jpg", grid_, whole(grid_))),
        land_(read_land_fraction(data / "globe_combined_mask_compressed.npz", grid_, whole(grid_))) {}

  // Appends two channels of rows of a patch that draw(0), draw(1), ..., numbers of [0, 1), choose: how bright the
  // relief is, and how much more red than blue. The western fifth of the map is held out.
  template <class Draw>
  void append(std::vector<float>& values, const PatchRows& patch, const Draw& draw) const {
    if (relief_.values.empty()) return append_made_up(values, patch, draw);
    const auto [y0, x0] = find(patch, draw);
    for (int channel = 0; channel < 2; ++channel)
      for (std::int64_t y = y0 + patch.row; y < y0 + patch.row + patch.rows; ++y)
        for (std::int64_t x = x0; x < x0 + patch.size; ++x) {
          const float red = relief_.at(0, y, x), green = relief_.at(1, y, x), blue = relief_.at(2, y, x);
          values.push_back(channel == 0 ? red + green + blue - 1.5f : 2 * (red - blue));
        }
  }

 private:
  // The first place of this kind among those that are drawn.
  template <class Draw>
  std::pair<std::int64_t, std::int64_t> find(const PatchRows& patch, const Draw& draw) const {
    const std::int64_t sector = grid_.width / 5, first = patch.is_held_out ? 0 : sector;
    const std::int64_t columns = (patch.is_held_out ? sector : grid_.width - sector) - patch.size;
    for (std::uint64_t number = 0;; number += 2) {
      const auto y = static_cast<std::int64_t>(draw(number) * static_cast<double>(grid_.height - patch.size));
      const auto x = first + static_cast<std::int64_t>(draw(number + 1) * static_cast<double>(columns));
      if (kind_of(y, x, patch.size) == patch.kind) return {y, x};
    }
  }

  // Coasts are of no kind: -1.
  int kind_of(std::int64_t y0, std::int64_t x0, std::int64_t size) const {
    constexpr std::int64_t step = 4;
    double land = 0, white = 0, points = 0;
    for (std::int64_t y = y0; y < y0 + size; y += step)
      for (std::int64_t x = x0; x < x0 + size; x += step) {
        land += land_.at(0, y, x);
        white += std::min({colours_.at(0, y, x), colours_.at(1, y, x), colours_.at(2, y, x)}) > 0.6f ? 1 : 0;
        ++points;
      }
    if (white > 0.6 * points) return 2;
    return land > 0.7 * points ? 1 : land < 0.1 * points ? 0 : -1;
  }

  // Sea is flat and low, land is rough, ice is blue. Noise and a random height hide it.
  template <class Draw>
  static void append_made_up(std::vector<float>& values, const PatchRows& patch, const Draw& draw) {
    const double height = draw(0) - (patch.kind == 0 ? 1.0 : patch.kind == 1 ? 0.0 : 0.5);
    const double red = patch.kind == 2 ? -0.4 - draw(1) : 0.5 + draw(1), rough = patch.kind == 0 ? 0.1 : 0.5;
    for (std::int64_t channel = 0; channel < 2; ++channel)
      for (std::int64_t y = patch.row; y < patch.row + patch.rows; ++y)
        for (std::int64_t x = 0; x < patch.size; ++x) {
          const auto point = static_cast<std::uint64_t>((channel * patch.size + y) * patch.size + x);
          const double noise = 3.4 * (draw(2 + point) - 0.5);  // of deviation 1
          values.push_back(static_cast<float>(channel == 0 ? height + rough * noise : red + 0.8 * noise));
        }
  }

  Grid grid_{720, 1440};
  Planes relief_, colours_, land_;
};

}  // namespace earth
