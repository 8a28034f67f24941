// score_ensemble(members, truth, weight): how well an ensemble tells what happens, and how unsure it is.
//
//   members: (M, C, H, W), or with depth, M >= 2 members along the first dimension, cut over the mesh or not
//   truth, weight: fields or expressions that can stand beside it, such as hg::expand<0>(y) of (1, C, H, W)
//
//   With m, n members, y the truth and means over points by weight, where points of weight 0 may be NaN:
//   crps    mean of |x_m - y| - sum over m < n of |x_m - x_n| / (M (M - 1)): fair in M (Ferro, 2014)
//   rmse    of the members' mean
//   spread  sqrt((M + 1) / M) times the root of the mean of their variance, which divides by M - 1 (Fortin et al.,
//   2014)
//
//   Collectives: two all_reduces for each mean; where members are cut, each member's piece goes to floor(M / 2) ranks.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include "halogen/array/expression/functions.hpp"
#include "halogen/array/stages/rearranged.hpp"
#include "halogen/array/stages/reduced.hpp"
#include "halogen/comm/error.hpp"

namespace halogen {

struct EnsembleScores {
  double crps = 0, rmse = 0, spread = 0;
  /// 1 for members among which the truth could be one; below 1 they are too sure.
  double spread_skill() const { return spread / rmse; }
};

template <class Field, class Truth, class Weight = double>
EnsembleScores score_ensemble(const Field& members, const Truth& truth, const Weight& weight = 1.0) {
  detail::require_made("score_ensemble", members, truth, weight);
  const index_t count = members.extent(0);
  if (count < 2)
    throw CollectiveError("score_ensemble: " + std::to_string(count) +
                          " members along the first dimension: give 2 or more");
  const auto size = static_cast<double>(count);
  const auto counted = [&](const auto& values) {  // 0 where the weight is 0, even if the value is NaN
    if constexpr (std::is_arithmetic_v<Weight>)
      return values;
    else
      return where(weight != 0.0, values, 0.0);
  };
  const auto mean_of = [&](const auto& values) {
    const double weights = static_cast<double>(sum(counted(weight + 0.0 * values)));
    return static_cast<double>(sum(counted(weight * values))) / weights;
  };
  EnsembleScores scores;
  scores.crps = mean_of(abs(members - truth));
  for (index_t by = 1; 2 * by <= count; ++by) {  // members m and m + by, which are all pairs once or, at M / 2, twice
    const double pairs = 2 * by == count ? 0.5 : 1.0;
    scores.crps -= pairs * mean_of(abs(members - roll<0>(members, by))) / (size - 1);
  }
  const auto centre = expand<0>(stored(mean<0>(members, keep_dimensions)));
  scores.rmse = std::sqrt(mean_of(square(centre - truth)));
  scores.spread = std::sqrt((size + 1) / (size - 1) * mean_of(square(members - centre)));
  return scores;
}

}  // namespace halogen
