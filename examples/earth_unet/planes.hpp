// Some channels of a field on a box of the grid, indexed by global pixel coordinates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid.hpp"

namespace earth {

// `values` is channel-major: (channels, box.height(), box.width()).
struct Planes {
  int channels = 0;
  Box box;
  std::vector<float> values;

  Planes() = default;
  Planes(int channel_count, Box where)
      : channels(channel_count),
        box(where),
        values(static_cast<std::size_t>(channel_count * where.height() * where.width())) {}

  float& at(int c, std::int64_t y, std::int64_t x) { return values[index(c, y, x)]; }
  float at(int c, std::int64_t y, std::int64_t x) const { return values[index(c, y, x)]; }

 private:
  std::size_t index(int c, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>((c * box.height() + y - box.y0) * box.width() + x - box.x0);
  }
};

// The part of `planes` inside `box`, which must lie within planes.box.
inline Planes crop(const Planes& planes, Box box) {
  Planes part(planes.channels, box);
  for (int c = 0; c < planes.channels; ++c)
    for (std::int64_t y = box.y0; y < box.y1; ++y)
      for (std::int64_t x = box.x0; x < box.x1; ++x) part.at(c, y, x) = planes.at(c, y, x);
  return part;
}

}  // namespace earth
