// From the picture of the sea floor to depths, and from the water's surface to a picture. Nothing here knows of ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "planes.hpp"

namespace shallow_water {

/// Metres of water that a colour of etopo1.jpg stands for, 0 on land. A proxy: the picture shows NOAA's ETOPO1 relief
/// in a ramp of blues under hill shading. Shading hardly changes (red + green) / blue, and depth lowers it; the ramp's
/// own ratios are below. The oceans come out 3675 m deep in the mean. Nothing is deeper than 8000 m.
inline double depth_of(double red, double green, double blue) {
  constexpr std::array ratios{1.64, 1.43, 1.24, 1.04, 0.9, 0.82, 0.71, 0.59, 0.53, 0.35, 0.175, 0.07};
  constexpr std::array metres{0.0, 500.0, 1e3, 2e3, 3e3, 3.5e3, 4e3, 4.5e3, 5.5e3, 6e3, 6.5e3, 8e3};
  if (red >= 0.8 * blue || green >= blue) return 0;
  const double ratio = std::clamp((red + green) / blue, ratios.back(), ratios.front());
  std::size_t i = 1;
  while (ratio < ratios[i]) ++i;
  const double depth = metres[i] + (metres[i - 1] - metres[i]) * (ratio - ratios[i]) / (ratios[i - 1] - ratios[i]);
  return std::max(depth, 20.0);  // so that no trough runs a shelf dry
}

/// The relief in quiet colours, and on it the surface: crests orange, troughs blue, from 0.4 m on opaque, then whiter.
inline earth::Planes coloured(const earth::Planes& relief, const std::vector<double>& depth,
                              const std::vector<double>& surface) {
  using Paint = std::array<double, 3>;
  constexpr Paint land{0.5, 0.48, 0.44}, sea{0.1, 0.2, 0.38}, crest{1, 0.6, 0.1}, trough{0.3, 0.75, 1};
  earth::Planes frame = relief;
  const std::size_t points = depth.size();
  for (std::size_t i = 0; i < points; ++i) {
    const double light = (relief.values[i] + relief.values[points + i] + relief.values[2 * points + i]) / 3;
    const double height = std::abs(surface[i]) / 0.4, opacity = std::pow(std::min(height, 1.0), 0.7);
    for (std::size_t c = 0; c < 3; ++c) {
      const double ground = (0.2 + 1.2 * light) * (depth[i] > 0 ? sea : land)[c];
      const double water = std::lerp((surface[i] > 0 ? crest : trough)[c], 1.0, std::clamp((height - 1) / 4, 0.0, 0.8));
      frame.values[c * points + i] = static_cast<float>(std::lerp(ground, water, opacity));
    }
  }
  return frame;
}

}  // namespace shallow_water
