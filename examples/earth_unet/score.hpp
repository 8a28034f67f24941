// How well the network does where it has never trained, beside plain interpolation.
#pragma once

#include "sample.hpp"

namespace earth {

// Root mean square errors over the held-out sector, all channels together, weighted by the cosine of latitude; the
// fields are in [0, 1].
struct Score {
  double rmse = 0;                                       // of b + sigma * network output
  double baseline_rmse = 0;                              // of b, the bilinear interpolation
  double ratio() const { return rmse / baseline_rmse; }  // `held_out_ratio`; below 1 the network has learned something
};

// Scores `output`, the network's answer in units of sigma (3 channels on sample.box). Collective: every rank gives its
// own piece and gets the score of all, which depends on the cut only by rounding in double.
Score score(const Planes& output, const Sample& sample, const Ranks& ranks);

}  // namespace earth
