#include "score.hpp"

#include <array>
#include <cmath>

#include "held_out.hpp"

namespace earth {

Score score(const Planes& output, const Sample& sample, const Ranks& ranks) {
  std::array<double, 3> sums{};  // squared errors of prediction and baseline, weights
  for (std::int64_t y = sample.box.y0; y < sample.box.y1; ++y) {
    // Not sample.weight, which is 0 here.
    const double weight = area_weight(y, sample.grid);
    std::array<double, 3> row{};
    for (std::int64_t x = sample.box.x0; x < sample.box.x1; ++x) {
      if (!held_out(x, sample.grid)) continue;
      for (int c = 0; c < 3; ++c) {
        const double truth = sample.truth.at(c, y, x), baseline = sample.baseline.at(c, y, x);
        const double error = baseline + double{sample.sigma[static_cast<std::size_t>(c)]} * output.at(c, y, x) - truth;
        row[0] += error * error;
        row[1] += (baseline - truth) * (baseline - truth);
        row[2] += 1;
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weight * row[i];
  }
  ranks.all_reduce_sum(sums);
  return {std::sqrt(sums[0] / sums[2]), std::sqrt(sums[1] / sums[2])};
}

}  // namespace earth
