// The three pictures of a run. Each takes small images that are already assembled, so one rank draws alone.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "image.hpp"
#include "planes.hpp"

namespace earth {

// Three views of one region, of equal size.
struct Comparison {
  Image coarse, predicted, truth;
};

// A part of the held-out sector where detail shows: from the Arabian Sea over the Himalaya to the Ganges.
Box closeup_box(Grid grid);

// The held-out sector coarse, predicted and true side by side, and a close-up of each below.
Image draw_held_out(const Comparison& sector, const Comparison& closeup, double held_out_ratio);

// The whole Earth with the mesh's cuts: the first rows and columns of the pieces in pixels of `grid`, starting with 0.
// Draws longitude's periodic cut at both edges.
Image draw_mesh(const Image& whole_earth, Grid grid, std::span<const std::int64_t> first_rows,
                std::span<const std::int64_t> first_columns);

// Loss (logarithmic) above and held-out ratio (linear) below, against the step, both starting with step 1.
Image draw_curves(std::span<const double> losses, std::span<const double> held_out_ratios);

}  // namespace earth
