// The one training sample: what the network sees and should answer, on one rank's piece of the Earth.
#pragma once

#include <array>
#include <filesystem>

#include "planes.hpp"
#include "ranks.hpp"

namespace earth {

// What is downscaled: the colours of the Blue Marble, with the fine relief at hand; or the relief itself.
enum class Subject { colours, relief };

// All planes cover `box`. With y the subject on the grid and b its coarse field interpolated back:
struct Sample {
  Grid grid;
  Box box;
  Planes input;     // b (3: red, green, blue), of colours relief - its coarse-and-back (3), land - its
                    //    coarse-and-back (1): 7 or 4; each less its global mean and over its global standard deviation
  Planes label;     // 3: (y - b) / sigma
  Planes weight;    // 1: cosine of the latitude of the pixel's centre; 0 in the held-out sector
  Planes truth;     // 3: y, in [0, 1]
  Planes baseline;  // 3: b, in [0, 1]
  std::array<float, 3> sigma{};  // global standard deviation of y - b outside the held-out sector
};

// Reads rank-local pieces of bmng.jpg, etopo1.jpg and globe_combined_mask_compressed.npz from `data`. Collective:
// each rank gives its own box, and the boxes together cover the grid once. No rank holds more than its piece and a
// margin of at most two coarse cells, plus one row of a file. Means and deviations are weighted by the cosine of
// latitude, summed in double and over ranks, and rounded to float: the sample has the same bits on any mesh (but for a
// sum that falls on the edge between two floats). If a rank cannot read its piece (a file is missing or damaged),
// reads a value that is not finite, or finds a channel constant over the Earth, all throw through ranks.agree.
Sample load_sample(const std::filesystem::path& data, Grid grid, Box box, const Ranks& ranks,
                   Subject subject = Subject::colours);

// The field that a network output (3 channels, in units of sigma) stands for: b + sigma * output.
Planes predicted_field(const Planes& output, const Sample& sample);

// Throws std::runtime_error naming `source`, channel and pixel of the first value that is NaN or infinite.
void require_finite(const Planes& planes, const std::string& source);

}  // namespace earth
